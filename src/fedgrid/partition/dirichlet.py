"""Label skew by a Dirichlet distribution over clients for every class (the *practical* setting).

For each class c, shares q_c ~ Dir(β·1_N) say which part of its images each client gets. Small β: few clients hold
nearly all images of a class; large β: every client holds the class shares of the whole. As in the code of FedALA, which
FedCoSR cites for its setting, a client that already holds its even share of all images gets no further class
(`balance`), so that sizes stay comparable.
"""

import numpy as np

from fedgrid.components import hp
from fedgrid.errors import UserError
from fedgrid.partition.base import Partition


class Dirichlet(Partition):
    title = "Dirichlet"
    source = "Hsu, Qi & Brown 2019; per class with balancing as in FedALA (Zhang et al., AAAI 2023)"
    named = ("beta",)

    beta: float = hp(0.1, above=0)
    "Concentration β of the Dirichlet distribution; smaller is more heterogeneous."
    balance: bool = hp(True)
    "Whether a client that holds its even share of images is passed over for the remaining classes."
    min_samples: int = hp(10, low=0)
    "Smallest number of images a client may hold; poorer clients are given images of the richest."

    def words(self) -> str:
        return f"Dirichlet β={self.beta:g}, {self.clients} clients"

    def check(self, images: int, classes: int) -> None:
        super().check(images, classes)
        if self.clients * self.min_samples > images:
            raise UserError(
                f"partition.min_samples: {self.clients} clients with at least {self.min_samples} images each need "
                f"{self.clients * self.min_samples} images, there are {images}"
            )

    def owners(self, labels: np.ndarray, classes: int, random: np.random.Generator) -> np.ndarray:
        owner = np.empty(len(labels), np.int64)
        held = np.zeros(self.clients, np.int64)
        for label in random.permutation(classes):
            members = random.permutation(np.flatnonzero(labels == label))
            cuts = np.round(np.cumsum(self._shares(held, len(labels), random)) * len(members)).astype(int)
            owner[members] = np.searchsorted(cuts, np.arange(len(members)), side="right").clip(max=self.clients - 1)
            held += np.bincount(owner[members], minlength=self.clients)
        return self._repaired(owner, random)

    def _shares(self, held: np.ndarray, total: int, random: np.random.Generator) -> np.ndarray:
        shares = random.dirichlet(np.full(self.clients, self.beta))
        if self.balance:
            shares = shares * (held < total / self.clients)
        if not shares.sum() > 0:  # a tiny β can leave all weight on clients that are full
            shares = np.eye(self.clients)[held.argmin()]
        return shares / shares.sum()

    def _repaired(self, owner: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Moves random images from the richest clients to those below `min_samples`; sizes never cross."""
        held = np.bincount(owner, minlength=self.clients)
        for client in np.flatnonzero(held < self.min_samples):
            while held[client] < self.min_samples:
                richest = held.argmax()
                owner[random.choice(np.flatnonzero(owner == richest))] = client
                held[[client, richest]] += 1, -1
        return owner
