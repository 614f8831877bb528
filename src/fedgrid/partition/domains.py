"""Feature skew: every client holds images of one domain (FedCCL's inter-domain settings).

Balanced (FedCCL, Table 1): the clients differ in their domain alone; each class has equally many images at all of them,
as many as the poorest client can have. Imbalanced by β (Table 2): for each class c, shares q_c ~ Dir(β·1_N) say how the
images that the clients together had of it are divided among them, as far as their domains have so many.
"""

import numpy as np

from fedgrid.components import hp
from fedgrid.data.common.images import DatasetInfo
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.partition.base import UNUSED, SampledPartition
from fedgrid.partition.common.sizes import apportioned


class Domains(SampledPartition):
    title = "domains"
    source = "Qiao et al., FedCCL, Sec. 5.1, Tables 1–3; the sizes are not stated there"
    named = ("beta", "clients")
    balances_domains = True

    clients: int | None = hp(None, low=1)  # type: ignore[assignment]  # others need a number
    "Number of clients, N: a multiple of the number of domains; one a domain where no number is given."
    beta: float | None = hp(None, above=0, high=1e6)
    "Concentration β of the imbalanced setting (0.5 in FedCCL); balanced where no number is given."
    per_class: int | None = hp(None, low=1)
    "Largest number of images of a class that a client of the balanced setting holds; none: as many as all can."
    min_samples: int = hp(10, low=0)
    "Smallest number of images a client may hold; a poorer one is given more of its own domain."

    def description(self) -> str:
        how = "balanced" if self.beta is None else f"imbalanced β={self.beta:g}"
        least = f", {self.per_class} images a class" if self.per_class else ""
        return f"one domain a client, {how}{least}" + (f", {self.clients} clients" if self.clients else "")

    def count(self, domains: int) -> int:
        return self.clients or domains

    def check(self, images: int, classes: int, domains: int) -> None:
        if not domains:
            raise UserError("partition: 'domains' needs a data set with domains, such as digit5 or office10")
        super().check(images, classes, domains)
        if self.count(domains) % domains:
            raise UserError(f"partition.clients: {self.clients} is not a multiple of the data set's {domains} domains")

    def sizes(self, images: int, info: DatasetInfo) -> list[int]:
        """As if all domains were equally large: how large they are stands in the labels, so these may be too many."""
        most = self.per_class * len(info.classes) if self.per_class else images
        return [min(size, most) for size in super().sizes(images, info)]

    def owners(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        clients, domains = self.count(len(pool.domain_names)), len(pool.domain_names)
        stock = _stocks(pool, clients, random)
        have = np.array([[len(images) for images in row] for row in stock])
        if not have.min(axis=0).any():
            raise UserError("partition: the domains have no class in common, each of which every client could hold")
        wanted = self._balanced(have) if self.beta is None else self._imbalanced(have, random)
        owner = np.full(len(pool.labels), UNUSED)
        for client, row in enumerate(stock):
            dealt = [images[:n] for images, n in zip(row, wanted[client], strict=True)]
            remaining = np.concatenate([images[n:] for images, n in zip(row, wanted[client], strict=True)])
            missing = max(0, self.min_samples - int(wanted[client].sum()))
            if missing > len(remaining):
                name = pool.domain_names[client % domains]
                raise UserError(
                    f"partition.min_samples: client {client} has only {have[client].sum()} images of domain '{name}', "
                    f"not {self.min_samples}"
                )
            owner[np.concatenate([*dealt, random.permutation(remaining)[:missing]])] = client
        return owner

    def _balanced(self, have: np.ndarray) -> np.ndarray:
        """Images [N, C] that every client holds of every class: the same at all of them."""
        least = have.min(axis=0)
        return np.tile(np.minimum(least, self.per_class or least.max()), (len(have), 1))

    def _imbalanced(self, have: np.ndarray, random: np.random.Generator) -> np.ndarray:
        wanted = np.zeros_like(have)
        for label, total in enumerate(self._balanced(have).sum(axis=0)):
            shares = random.dirichlet(np.full(len(have), self.beta))
            wanted[:, label] = apportioned(shares if shares.sum() > 0 else np.ones(len(have)), total)
        available: np.ndarray = np.minimum(wanted, have)
        return available


def _stocks(pool: Labels, clients: int, random: np.random.Generator) -> list[list[np.ndarray]]:
    """For every client and class, the images that it may have: its domain's, divided evenly among its clients."""
    domains = len(pool.domain_names)
    stock: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for domain in range(domains):
        holders = range(domain, clients, domains)
        for label in range(pool.classes):
            members = random.permutation(np.flatnonzero((pool.domains == domain) & (pool.labels == label)))
            for holder, images in zip(holders, np.array_split(members, len(holders)), strict=True):
                stock[holder].append(images)
    return stock
