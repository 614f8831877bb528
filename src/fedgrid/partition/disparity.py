"""Two clients whose sets of classes have less and less in common (FedSaC, Fig. 1).

Each holds `classes` of them, of which the share `disparity` is not held by the other. A client has as many images of a
class that it shares as of one that it has alone: what the other would have had of that class is nobody's. So a client's
number of images stays as the disparity grows, and the first client's images stay the same ones.

`parts` says how large a part of a class a client has. ``equal``: half. ``different``: the first client has the part
`larger` of every class, the second the rest. ``mixed``: they have the larger part by turns, so that both hold as many
images and each leads in other classes.

The paper says neither how it raises the disparity nor which three scenarios it shows: these are a reading.
"""

import math

import numpy as np

from fedgrid.components import hp
from fedgrid.data.common.images import DatasetInfo
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.partition.base import UNUSED, SampledPartition

WHOLE = 0.05
"How far from a whole number of classes a disparity may be, so that 0.33 is a third of 3."


class Disparity(SampledPartition):
    title = "disparity"
    source = "Yan et al., Balancing Similarity and Complementarity for Federated Learning, ICML 2024, Fig. 1"
    named = ("disparity", "parts")
    similar_sizes = True

    clients: int = hp(2, low=2, high=2)
    "Number of clients."
    disparity: float = hp(0.5, low=0, high=1)
    "Share of a client's classes that the other does not hold: 0, the same classes; 1, none in common."
    classes: int = hp(4, low=1)
    "Number of classes that a client holds."
    parts: str = hp("equal", choices=("equal", "different", "mixed"))
    "Who has the larger part of a class: neither, the first client, or both in turn."
    larger: float = hp(0.8, low=0.5, high=0.99)
    "The larger part of a class, where parts are not equal."

    @property
    def alone(self) -> int:
        """How many of its classes a client does not share."""
        return round(self.disparity * self.classes)

    def description(self) -> str:
        return f"two clients with {self.classes} classes each, disparity {self.disparity:g}, {self.parts} sizes"

    def check(self, images: int, classes: int, domains: int) -> None:
        super().check(images, classes, domains)
        exact = self.disparity * self.classes
        if abs(exact - self.alone) > WHOLE:
            near = " or ".join(f"{shared / self.classes:.3g}" for shared in (math.floor(exact), math.ceil(exact)))
            raise UserError(
                f"partition.disparity: {self.disparity:g} of {self.classes} classes is not a whole number; take {near}"
            )
        if self.parts == "mixed" and self.classes % 2:
            raise UserError(
                f"partition.classes: {self.classes} is odd, and mixed sizes take turns; take an even number"
            )
        if (needed := self.classes + self.alone) > classes:
            raise UserError(
                f"partition.classes: two clients with {self.classes} classes each, {self.alone} of them not shared, "
                f"need {needed} classes, but the data set has only {classes}"
            )

    def sizes(self, images: int, info: DatasetInfo) -> list[int]:
        part = sum(self._part(position) for position in range(self.classes)) / len(info.classes)
        return [round(part * images), round((self.classes / len(info.classes) - part) * images)]

    def owners(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        owner = np.full(len(pool.labels), UNUSED)
        for position, label in enumerate(random.permutation(pool.classes)[: self.classes + self.alone]):
            members = random.permutation(np.flatnonzero(pool.labels == label))
            cut = round(self._part(position) * len(members))
            if position < self.classes:
                owner[members[:cut]] = 0
            if position >= self.alone:
                owner[members[cut:]] = 1
        return owner

    def _part(self, position: int) -> float:
        """The part of a class that is the first client's, where it holds it; classes are counted from 0."""
        if self.parts == "equal":
            return 0.5
        return self.larger if self.parts == "different" or position % 2 == 0 else 1 - self.larger
