"""Every client holds only a few classes (the *pathological* setting of McMahan et al.).

`deal: classes` gives every client exactly k classes: the classes are shuffled and dealt out like cards, so that all are
held by as equally many clients as possible, and the images of a class are divided among its holders, evenly or
(`balance` off, as in PFLlib) by random shares that differ up to tenfold. `deal: consecutive` is the same without the
shuffle, as FedSaC's code has it for k = 2: client i holds the classes i·k to i·k + k − 1, modulo the number of classes.
Where there are C of them and k·N is no multiple of C, the first k·N mod C have one holder more than the others, and
their images are divided into one part more. `deal: shards` is McMahan et al.'s own way: images sorted by class are cut
into k·N shards of equal size, k to a client, which so holds about k classes and equally many images.
"""

import numpy as np

from fedgrid.components import hp
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.partition.base import SampledPartition
from fedgrid.partition.common.sizes import apportioned

SMALLEST_SHARE = 0.1
"Of a holder of a class, before its shares are made to add up to 1, where sizes are unequal."


class Pathological(SampledPartition):
    title = "pathological"
    source = "McMahan et al., Communication-Efficient Learning of Deep Networks, AISTATS 2017"
    named = ("classes", "clients")

    classes: int = hp(2, low=1)
    "Number of classes (or of shards) a client holds, k."
    deal: str = hp("classes", choices=("classes", "consecutive", "shards"))
    "Whether classes are dealt out shuffled or in their order (FedSaC's code), or shards of the sorted images."
    balance: bool = hp(True)
    "Whether the holders of a class get equal parts of it; shards are always equal."

    def description(self) -> str:
        what = {"classes": "classes", "consecutive": "consecutive classes", "shards": "shards"}[self.deal]
        uneven = "" if self.balance or self.deal == "shards" else ", unequal sizes"
        return f"pathological ({self.classes} {what} each{uneven}), {self.clients} clients"

    def check(self, images: int, classes: int, domains: int) -> None:
        super().check(images, classes, domains)
        if self.deal == "shards" and self.classes * self.clients > images:
            raise UserError(
                f"partition.classes: {self.clients} clients with {self.classes} shards each need at least "
                f"{self.classes * self.clients} images, there are {images}"
            )
        if self.deal == "shards":
            return
        if self.classes > classes:
            raise UserError(f"partition.classes: {self.classes} classes a client, but the data set has only {classes}")
        if self.clients * self.classes < classes:
            raise UserError(
                f"partition.classes: {self.clients} clients with {self.classes} classes each cover "
                f"{self.clients * self.classes} of {classes} classes; more clients or more classes each are needed"
            )

    def owners(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        return self._shards(pool, random) if self.deal == "shards" else self._classes(pool, random)

    def _shards(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        shards = self.clients * self.classes
        holder = random.permutation(np.arange(shards) % self.clients)
        mixed = random.permutation(len(pool.labels))
        by_class = mixed[np.argsort(pool.labels[mixed], kind="stable")]
        owner = np.empty(len(pool.labels), np.int64)
        owner[by_class] = holder[np.arange(len(by_class)) * shards // len(by_class)]
        return owner

    def _classes(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        order = np.arange(pool.classes) if self.deal == "consecutive" else random.permutation(pool.classes)
        dealt = order[np.arange(self.clients * self.classes) % pool.classes].reshape(self.clients, self.classes)
        owner = np.empty(len(pool.labels), np.int64)
        for label in range(pool.classes):
            holders = random.permutation(np.flatnonzero((dealt == label).any(axis=1)))
            members = random.permutation(np.flatnonzero(pool.labels == label))
            if len(members) < len(holders):
                shared = f"{len(holders)} clients share class {label}"
                raise UserError(f"partition.clients: {shared}, which has only {len(members)} images")
            owner[members] = np.repeat(holders, self._sizes(len(holders), len(members), random))
        return owner

    def _sizes(self, holders: int, members: int, random: np.random.Generator) -> np.ndarray:
        shares = np.ones(holders) if self.balance else random.uniform(SMALLEST_SHARE, 1, holders)
        return 1 + apportioned(shares, members - holders)  # every holder does hold the class
