"""Every client holds exactly k classes (the *pathological* setting of McMahan et al.).

The classes are shuffled and dealt out like cards, k to a client, so that all classes are held by as equally many
clients as possible; the images of a class are divided evenly among its holders.
"""

import numpy as np

from fedgrid.components import hp
from fedgrid.errors import UserError
from fedgrid.partition.base import Partition


class Pathological(Partition):
    title = "pathological"
    source = "McMahan et al., Communication-Efficient Learning of Deep Networks, AISTATS 2017"
    named = ("classes",)

    classes: int = hp(2, low=1)
    "Number of classes a client holds, k."

    def words(self) -> str:
        return f"pathological ({self.classes} classes each), {self.clients} clients"

    def check(self, images: int, classes: int) -> None:
        super().check(images, classes)
        if self.classes > classes:
            raise UserError(f"partition.classes: {self.classes} classes a client, but the data set has only {classes}")
        if self.clients * self.classes < classes:
            raise UserError(
                f"partition.classes: {self.clients} clients with {self.classes} classes each cover "
                f"{self.clients * self.classes} of {classes} classes; more clients or more classes each are needed"
            )

    def owners(self, labels: np.ndarray, classes: int, random: np.random.Generator) -> np.ndarray:
        order = random.permutation(classes)
        dealt = order[np.arange(self.clients * self.classes) % classes].reshape(self.clients, self.classes)
        owner = np.empty(len(labels), np.int64)
        for label in range(classes):
            holders = random.permutation(np.flatnonzero((dealt == label).any(axis=1)))
            members = random.permutation(np.flatnonzero(labels == label))
            if len(members) < len(holders):
                shared = f"{len(holders)} clients share class {label}"
                raise UserError(f"partition.clients: {shared}, which has only {len(members)} images")
            owner[members] = holders[np.arange(len(members)) * len(holders) // len(members)]
        return owner
