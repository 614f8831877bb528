"""What every partition is: an owner for each image, and then each client's images for training, validation and testing.

Three policies say what clients are tested on. ``own``: the published parts are pooled and every client's share is split
anew (FedCoSR, FedCRL). ``official``: the published training part is dealt out, and the published test part is every
client's (FedCCL, FedSSC). ``weighted``: the same, with each class counted by its share in the client's training images
(FedSaC, pFedGraph).

Where the data are of several modalities, each is dealt out by itself, to as many clients: the first ones have images of
the first modality (FedSaC, Appendix B.3). A client is tested on its own modality, whose name is the client's domain.
"""

import abc
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from fedgrid.components import Component, hp
from fedgrid.data.common.columns import column, texts
from fedgrid.data.common.images import DatasetInfo
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.partition.common.rows import EVERYONE, SPLITS
from fedgrid.randomness import generator

UNUSED = -1
"Owner of an image that no client gets."


class Expected(NamedTuple):
    """How many images a partition deals out, all clients together: what is known of it before it is built."""

    clients: int
    train: int
    validation: int
    test: int
    "A test image that all clients share counts for each of them."
    similar_sizes: bool = False
    "Whether clients hold about equally many images, so that their batches stay in step."


class Partition(Component, abc.ABC):
    """Who holds what; most kinds are `SampledPartition`."""

    renamed: ClassVar = {"plan": "check_feasible"}
    named: ClassVar[tuple[str, ...]] = ()
    "Settings that the folder's name always has, besides those that differ from their defaults."
    cost_settings: ClassVar[tuple[str, ...]] = ("clients", "test", "fraction", "keep_fraction", "scarce")
    "Settings that are the same where cells cost the same, of this kind or another."
    balances_domains: ClassVar[bool] = False
    "Whether each client holds one domain: `fedgrid plan` and the partition's job then say what that leaves out."
    from_file: ClassVar[bool] = False
    "Whether a file, the setting `path`, says which client holds which images."
    needs_images: ClassVar[bool] = False
    "Whether `split` and `about` are given an `ImagePool`: labels with the images themselves."

    @classmethod
    def facts(cls) -> dict[str, Any]:
        return {"named": list(cls.named), "cost_settings": list(cls.cost_settings), "from_file": cls.from_file}

    @abc.abstractmethod
    def sentence(self) -> str:
        """The full setting in words, for captions."""

    def sentence_with_origin(self, seed: int) -> str:
        """The full setting in words; of what was imported, with the origin of a seed's file."""
        return self.sentence()

    @abc.abstractmethod
    def check_feasible(self, info: DatasetInfo, seeds: list[int]) -> None:
        """Raises UserError, before anything is built, where a data set of this form cannot be dealt out so."""

    @abc.abstractmethod
    def expected(self, info: DatasetInfo, seed: int) -> Expected:
        """How many images of a data set of this form it deals out, for estimates: nearly, where labels decide."""

    @abc.abstractmethod
    def split(self, pool: Labels, seed: int) -> pa.Table:
        """Rows (client, split, index, label, domain), client by client, as `rows_as_table` makes them.

        Clients and indices count from 0, indices through all images of the pool, the training part first. Test images
        that all clients share are listed once, at the end, as those of client `EVERYONE`. Raises UserError if the
        images cannot be dealt out.
        """

    @abc.abstractmethod
    def about(self, pool: Labels, seed: int) -> dict[str, Any]:
        """Metadata, at least ``clients`` (their number), ``words`` (the setting) and ``test`` (as in `tested`)."""

    @abc.abstractmethod
    def tested(self, seed: int) -> str:
        """What clients are tested on: ``own``, ``official`` or ``weighted``."""

    @abc.abstractmethod
    def validated(self, seed: int) -> bool:
        """Whether training images are held out for validation."""

    def identity(self, seed: int) -> dict[str, Any] | None:
        """What a seed's partition depends on in place of its settings, as plain values for the key; None: on these."""
        return None


class SampledPartition(Partition):
    """A kind of heterogeneity: every image gets an owner at random. A subclass defines `owners` and `description`."""

    similar_sizes: ClassVar[bool] = False
    "Whether clients hold about equally many images: see `Expected`."

    clients: int = hp(20, low=1)
    "Number of clients, N; with several modalities a multiple of their number, as each has equally many clients."
    test: str = hp("own", choices=("own", "official", "weighted"))
    "What clients are tested on: their share of the pooled images, the official test part, or that weighted by class."
    train_share: float = hp(0.75, above=0, high=1)
    "With own test images: share of a client's images that it trains on (FedCoSR, Sec. V-A2)."
    validation: float = hp(0.0, low=0, high=0.9)
    "Share of a client's training images that are held out for validation (0.2 in FedSaC's code)."
    fraction: float = hp(1.0, above=0, high=1)
    "Share of the images that is used at all, shared test images too, drawn at random: for quick studies."
    keep_fraction: float = hp(1.0, above=0, high=1, was="keep")
    "Share of its images that a scarce client keeps, of each class alike (FedCoSR, Sec. V-A3: 0.1; 0.05 to 0.25)."
    scarce: int | None = hp(None, low=1)
    "How many clients, the last ones, are scarce (FedCoSR: 5 of 20); all where no number is given."

    @abc.abstractmethod
    def owners(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        """The client (int [n], from 0) of each of the pool's n images, or UNUSED; all draws come from `random`.

        Raises UserError if the images cannot be dealt out.
        """

    @abc.abstractmethod
    def description(self) -> str:
        """The setting of this kind as a person says it."""

    def check(self, images: int, classes: int, domains: int) -> None:
        """Raises UserError if these numbers of images, classes and domains do not suffice; subclasses add limits."""
        clients = self.count(domains)
        if images < clients:
            raise UserError(f"partition.clients: {clients} clients cannot share {images} images")

    def check_scarce(self, domains: int) -> None:
        """Raises UserError where more clients are to be scarce than there are."""
        clients = self.count(domains)
        if self.scarce is not None and self.scarce > clients:
            raise UserError(f"partition.scarce: there are only {clients} clients, not {self.scarce}")

    def count(self, domains: int) -> int:
        """Number of clients for a data set with so many domains."""
        return self.clients

    def used(self, images: int) -> int:
        """How many of so many images are used."""
        return math.ceil(self.fraction * images)

    def dealt(self, info: DatasetInfo) -> int:
        """How many images are dealt out to clients, those that all share left out."""
        return self.used(info.images["train"] + (info.images["test"] if self.test == "own" else 0))

    def sizes(self, images: int, info: DatasetInfo) -> list[int]:
        """The number of images that each client is expected to get out of `images`, [N]; equal by default."""
        clients = self.count(len(info.domains))
        return [images // clients + (client < images % clients) for client in range(clients)]

    def expected(self, info: DatasetInfo, seed: int) -> Expected:
        one, each = info.of_one_modality(), self.for_each_modality(info.modalities)
        sizes = each.sizes(each.dealt(one), one) * (len(info.modalities) or 1)
        sizes = [number_kept(n, self._keeps(client, len(sizes))) for client, n in enumerate(sizes)]
        train, validation, test = (sum(part) for part in zip(*map(self._parts, sizes), strict=True))
        if self.test != "own":
            test = len(sizes) * self.used(one.images["test"])
        return Expected(len(sizes), train, validation, test, self.similar_sizes)

    def sentence(self) -> str:
        parts = [self.description()]
        if self.keep_fraction < 1:
            who = f"the last {self.scarce} clients keep" if self.scarce else "all clients keep"
            parts.append(f"{who} {self.keep_fraction:.0%}")
        share = f"{self.fraction:g} of the " if self.fraction < 1 else ""
        if share:
            parts.append(f"{share}images")
        if self.validation:
            parts.append(f"{self.validation:.0%} for validation")
        if self.test != "own":
            parts.append(f"{share}official test images" + " weighted by class" * (self.test == "weighted"))
        return ", ".join(parts)

    def about(self, pool: Labels, seed: int) -> dict[str, Any]:
        return {"clients": self.count(len(pool.domain_names)), "words": self.sentence(), "test": self.test}

    def tested(self, seed: int) -> str:
        return self.test

    def validated(self, seed: int) -> bool:
        return self.validation > 0

    def check_feasible(self, info: DatasetInfo, seeds: list[int]) -> None:
        if self.test != "own" and not info.images["test"]:
            raise UserError(
                f"partition.test: '{self.test}' needs a published test part, which this data set does not have; use own"
            )
        self.check_scarce(len(info.domains))
        images = self.dealt(info.of_one_modality())
        self.for_each_modality(info.modalities).check(images, len(info.classes), len(info.domains))

    def for_each_modality(self, modalities: Sequence[str]) -> Self:
        """The same for the clients of one of the modalities, among whom it deals out that modality's images by itself.

        Without modalities it is the partition itself. Raises UserError where the clients cannot be shared evenly.
        """
        if not modalities:
            return self
        clients, others = divmod(self.count(0), len(modalities))
        if others:
            which = f"{len(modalities)} modalities, {' and '.join(modalities)}"
            raise UserError(f"partition.clients: {self.clients} is not a multiple of the data set's {which}")
        return replace(self, clients=clients)

    def split(self, pool: Labels, seed: int) -> pa.Table:
        random = self.generator(seed)
        clients = self.count(len(pool.domain_names))
        self.check_scarce(len(pool.domain_names))
        rows = []
        for client, index in enumerate(_images_by_client(*self._dealt(pool, random), clients)):
            if (share := self._keeps(client, clients)) < 1:
                index = stratified_share(index, pool.labels[index], share, random)
            rows.append(self._client(client, index, random))
        if self.test != "own":
            shared = self._shared(pool, seed)
            rows.append((np.full(len(shared), EVERYONE), shared, np.full(len(shared), SPLITS.index("test"))))
        return rows_as_table(pool, *(np.concatenate(column) for column in zip(*rows, strict=True)))

    def generator(self, seed: int) -> np.random.Generator:
        """What all draws of a seed come from, but for those of shared test images."""
        return generator("partition", type(self).__name__, seed)

    def _dealt(self, pool: Labels, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Owners [n] of the images that are used, and which these are [n]: of one modality after the other."""
        each, columns = self.for_each_modality(pool.modalities), []
        dealt = np.arange(len(pool.labels) if self.test == "own" else pool.train)
        for number, members in enumerate(_by_modality(pool, dealt)):
            used = np.sort(random.permutation(members)[: self.used(len(members))])
            each.check(len(used), pool.classes, len(pool.domain_names))
            owner = each.owners(part_of_pool(pool, used), random)
            first = number * each.count(len(pool.domain_names))
            columns.append((np.where(owner == UNUSED, UNUSED, owner + first), used))
        owners, images = (np.concatenate(column) for column in zip(*columns, strict=True))
        return owners, images

    def _shared(self, pool: Labels, seed: int) -> np.ndarray:
        """The test images that all clients share: the same for every kind of heterogeneity under a seed.

        Their draws are their own, so that training images do not depend on them.
        """
        every = _by_modality(pool, np.arange(pool.train, len(pool.labels)))
        drawn = [generator("shared test images", seed).permutation(test)[: self.used(len(test))] for test in every]
        return np.sort(np.concatenate(drawn))

    def _client(self, client: int, index: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        """(client, index, split) [n_i] of one client's images."""
        train, validation, _ = self._parts(len(index))
        rank = random.permutation(len(index))
        split = np.where(rank < train, 0, np.where(rank < train + validation, 1, 2))
        order = np.lexsort((index, split))
        return np.full(len(index), client), index[order], split[order]

    def _parts(self, images: int) -> tuple[int, int, int]:
        """How many of a client's images are for training, for validation and for testing."""
        train = images
        if self.test == "own":  # a client with a single image trains on it: it cannot do anything else with it
            train = max(min(images, 1), round(self.train_share * images))
        validation = min(round(self.validation * train), max(train - 1, 0))
        return train - validation, validation, images - train

    def _keeps(self, client: int, clients: int) -> float:
        """The share of its images that a client keeps."""
        return self.keep_fraction if client >= clients - (self.scarce or clients) else 1.0


def part_of_pool(pool: Labels, index: np.ndarray) -> Labels:
    """Some images of a pool."""
    domains, modality = (None if of is None else of[index] for of in (pool.domains, pool.modality))
    kept = {column: places[index] for column, places in pool.kept.items()}
    return replace(pool, labels=pool.labels[index], domains=domains, modality=modality, kept=kept)


def _by_modality(pool: Labels, index: np.ndarray) -> list[np.ndarray]:
    """The images `index` [n] of each modality; all in one where there are none."""
    if pool.modality is None:
        return [index]
    return [index[pool.modality[index] == number] for number in range(len(pool.modalities))]


def _images_by_client(owner: np.ndarray, index: np.ndarray, clients: int) -> list[np.ndarray]:
    """The images `index` [n] of each client, in order; UNUSED ones belong to no client."""
    order = np.argsort(owner, kind="stable")
    return np.split(index[order], np.searchsorted(owner[order], np.arange(clients)))[1:]


def number_kept(images: int, share: float) -> int:
    """How many of its images a client keeps that keeps a `share`: at least one."""
    return max(min(images, 1), round(share * images))


def stratified_share(index: np.ndarray, labels: np.ndarray, share: float, random: np.random.Generator) -> np.ndarray:
    """A random `share` of images `index` [n] with `labels` [n], at least one, whose classes keep their shares."""
    if not len(index):
        return index
    size = number_kept(len(index), share)
    mixed = random.permutation(len(index))
    by_class = mixed[np.argsort(labels[mixed], kind="stable")]
    # every n/size-th image of the list sorted by class: no class is off by more than one image
    places = np.floor((np.arange(size) + random.random()) * len(index) / size).astype(int)
    return np.sort(index[by_class[places]])


def rows_as_table(pool: Labels, client: np.ndarray, index: np.ndarray, split: np.ndarray) -> pa.Table:
    """The table of a partition from its columns [n]; `split` has positions in the names of splits."""
    places, names = pool.domains, pool.domain_names
    if pool.modality is not None:  # a client has images of one modality: it is the client's domain
        places, names = pool.modality, pool.modalities
    if places is None:
        domain = pa.nulls(len(index), pa.dictionary(pa.int16(), pa.string()))
    else:
        domain = pa.DictionaryArray.from_arrays(column(places[index], pa.int16()), texts(names))
    columns = {
        "client": column(client, pa.int32()),
        "split": pa.DictionaryArray.from_arrays(column(split, pa.int8()), texts(SPLITS)),
        "index": column(index, pa.int64()),
        "label": column(pool.labels[index], pa.int32()),
        "domain": domain,
    }
    return pa.table(columns)
