"""Quantity skew: clients differ in their number of images, drawn from Dir(β·1_N), not in what they show."""

import numpy as np

from fedgrid.components import hp
from fedgrid.data.common.store import Labels
from fedgrid.partition.base import SampledPartition
from fedgrid.partition.common.sizes import apportioned, check_least, levelled


class Quantity(SampledPartition):
    title = "quantity skew"
    source = "Li, Diao, Chen & He, Federated Learning on Non-IID Data Silos (NIID-Bench), ICDE 2022, Sec. IV-C"
    named = ("beta", "clients")

    beta: float = hp(0.5, above=0, high=1e6)
    "Concentration β of the Dirichlet distribution of sizes; smaller is more unequal."
    min_samples: int = hp(10, low=0)
    "Smallest number of images a client may hold; poorer clients are given images of the richest."

    def description(self) -> str:
        return f"quantity skew β={self.beta:g}, {self.clients} clients"

    def check(self, images: int, classes: int, domains: int) -> None:
        super().check(images, classes, domains)
        check_least(self.clients, self.min_samples, images)

    def owners(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        shares = random.dirichlet(np.full(self.clients, self.beta))
        if not shares.sum() > 0:  # a tiny β can underflow
            shares = np.eye(self.clients)[random.integers(self.clients)]
        sizes = levelled(apportioned(shares, len(pool.labels)), self.min_samples)
        return random.permutation(np.repeat(np.arange(self.clients), sizes))
