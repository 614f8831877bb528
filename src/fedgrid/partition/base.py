"""What every partition is: an owner for each image, then 75 % of a client's images for training, 25 % for testing."""

import abc
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from fedgrid.components import Component, hp
from fedgrid.errors import UserError
from fedgrid.files import write_table
from fedgrid.randomness import generator

UNUSED = -1


class Partition(Component, abc.ABC):
    """A kind of heterogeneity. The published parts of a data set are pooled and split anew for every client."""

    clients: int = hp(20, low=1)
    "Number of clients, N."
    train_share: float = hp(0.75, above=0, high=1)
    "Share of a client's images that it trains on; the rest is its own test set (FedCoSR, Sec. V-A2)."
    fraction: float = hp(1.0, above=0, high=1)
    "Share of the pooled images that is used at all, drawn at random: for quick studies."

    def check(self, images: int, classes: int) -> None:
        """Raises UserError where `images` of `classes` classes cannot be split so; a subclass adds its own limits."""
        if images < self.clients:
            raise UserError(f"partition.clients: {self.clients} clients cannot share {images} images")

    named: ClassVar[tuple[str, ...]] = ()
    "Settings that always stand in the folder's name, beside those that differ from their defaults."

    @classmethod
    def facts(cls) -> dict[str, Any]:
        return {"named": [*cls.named, "clients"]}

    @abc.abstractmethod
    def owners(self, labels: np.ndarray, classes: int, random: np.random.Generator) -> np.ndarray:
        """The client [n] (int) of every image with `labels` [n], or UNUSED; UserError where it is impossible."""

    @abc.abstractmethod
    def words(self) -> str:
        """The setting as a person says it, for captions."""

    def used(self, images: int) -> int:
        """How many of the pooled `images` are used."""
        return math.ceil(self.fraction * images)

    def split(self, labels: np.ndarray, classes: int, seed: int) -> pa.Table:
        """Rows (client, split, index, label), sorted; index counts the pooled images from 0."""
        random = generator("partition", type(self).__name__, seed)
        used = np.sort(random.permutation(len(labels))[: self.used(len(labels))])
        self.check(len(used), classes)
        owner = self.owners(labels[used], classes, random)
        rows = [self._client(client, used[owner == client], random) for client in range(self.clients)]
        client, index, train = (np.concatenate(column) for column in zip(*rows, strict=True))
        columns = {
            "client": pa.array(client, pa.int32()),
            "split": pa.array(np.where(train, "train", "test")).dictionary_encode(),
            "index": pa.array(index, pa.int64()),
            "label": pa.array(labels[index], pa.int32()),
        }
        return pa.table(columns)

    def _client(self, client: int, index: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        # a client with a single image trains on it: it cannot do anything else with it
        size = max(min(len(index), 1), round(self.train_share * len(index)))
        train = np.zeros(len(index), bool)
        train[random.permutation(len(index))[:size]] = True
        order = np.lexsort((index, ~train))
        return np.full(len(index), client), index[order], train[order]


def write(partition: Partition, labels: np.ndarray, facts: Mapping[str, Any], seed: int, spec: Any, out: Path) -> None:
    """Writes a partition of the data set whose `labels` and `facts` are given; `spec` is its identity."""
    table = partition.split(labels, len(facts["classes"]), seed)
    facts_of_partition = {"clients": partition.clients, "words": partition.words(), "data_checksum": facts["checksum"]}
    write_table(out, table, facts_of_partition | {"spec": spec})
