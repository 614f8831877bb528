"""Label skew by a Dirichlet distribution (the *practical* setting).

By class, for each class c, shares q_c ~ Dir(β·1_N) say which part of its images each client gets. As in the codes of
FedALA (which FedCoSR and FedCRL cite for their setting), NIID-Bench and pFedGraph (from which FedSaC's stems), a client
that already holds its even share of all images gets no further class (`balance`), so that sizes stay comparable.

By client, each client i draws class shares q_i ~ Dir(β·1_C) of its own, as Hsu et al. do. All images are dealt out, so
the shares that clients get are those nearest to what they drew (in relative entropy) that use up every class; with
`balance`, all clients hold equally many.

Small β: few clients hold nearly all images of a class; large β: every client holds the class shares of the whole.
"""

import numpy as np

from fedgrid.components import hp
from fedgrid.data.common.store import Labels
from fedgrid.partition.base import SampledPartition
from fedgrid.partition.common.sizes import apportioned, check_least, repaired

SWEEPS = 200
"Rescalings of rows and columns; what is left to be desired is then below a thousandth of an image."


class Dirichlet(SampledPartition):
    title = "Dirichlet"
    source = "Hsu, Qi & Brown 2019; per class with balancing as in FedALA (Zhang et al., AAAI 2023)"
    named = ("beta", "clients")

    beta: float = hp(0.1, above=0, high=1e6)
    "Concentration β of the Dirichlet distribution; smaller is more heterogeneous."
    by: str = hp("class", choices=("class", "client"))
    "Whether each class draws its shares over clients, or each client its shares of classes."
    balance: bool = hp(True)
    "By class: a client that holds its even share is passed over for the other classes. By client: equal sizes."
    min_samples: int = hp(10, low=0)
    "Smallest number of images a client may hold; poorer clients are given images of the richest."

    def description(self) -> str:
        return f"Dirichlet β={self.beta:g}{' by client' * (self.by == 'client')}, {self.clients} clients"

    def check(self, images: int, classes: int, domains: int) -> None:
        super().check(images, classes, domains)
        check_least(self.clients, self.min_samples, images)

    def owners(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        counts = np.bincount(pool.labels, minlength=pool.classes)
        dealt = self._by_class(counts, random) if self.by == "class" else self._by_client(counts, random)
        owner = np.empty(len(pool.labels), np.int64)
        for label in np.flatnonzero(counts):
            members = random.permutation(np.flatnonzero(pool.labels == label))
            owner[members] = np.repeat(np.arange(self.clients), apportioned(dealt[:, label], len(members)))
        return repaired(owner, self.clients, self.min_samples, random)

    def _by_class(self, counts: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Shares [N, C] of each class, drawn class after class in random order."""
        shares = np.ones((self.clients, len(counts)))
        held = np.zeros(self.clients)
        for label in random.permutation(len(counts)):
            drawn = random.dirichlet(np.full(self.clients, self.beta))
            open_ = drawn * (held < counts.sum() / self.clients) if self.balance else drawn
            if not open_.sum() > 0:  # a tiny β can leave all weight on clients that are full, or underflow
                open_ = np.eye(self.clients)[held.argmin()]
            shares[:, label] = open_ / open_.sum()
            held += apportioned(shares[:, label], counts[label])
        return shares

    def _by_client(self, counts: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Shares [N, C] of each class: the clients' draws, rescaled until they use up all classes."""
        drawn = np.nan_to_num(random.dirichlet(np.full(len(counts), self.beta), size=self.clients))
        shares = np.where(counts > 0, drawn + 1e-9, 0)  # so that every class finds a taker
        for _ in range(SWEEPS if self.balance else 1):
            shares *= counts.sum() / self.clients / shares.sum(axis=1, keepdims=True)
            shares *= counts / np.where(counts > 0, shares.sum(axis=0), 1)
        return shares
