"""Natural clients: each holds the images of one value of a column that the data keep, a writer, a speaker, a hospital.

Clients are drawn at random among the values that have enough images, and keep all of these: nothing is dealt out anew.
With `values_per_client`, a client holds the images of several values, grouped at random. Clients are numbered in the
order in which they are drawn; the partition's metadata say which values each one has (`names`).

Four policies say what clients are tested on. ``own``: the published parts are pooled and each client's images are split
anew. ``published``: the published split stays, and a client's test images are those of its values in the published test
part; a client without any trains and is not scored. ``official``, ``weighted``: all clients share the published test
part, as for other kinds. But for ``own``, only values of the published training part become clients.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from fedgrid.components import hp
from fedgrid.data.common.columns import numbers
from fedgrid.data.common.images import DatasetInfo
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError, nearest
from fedgrid.partition.base import UNUSED, Expected, SampledPartition, rows_as_table
from fedgrid.partition.common.rows import EVERYONE, split_numbers

DOMAIN = "domain"
"The value of `by` that stands for the domains of the data."


class Natural(SampledPartition):
    title = "natural clients"
    source = "Caldas et al., LEAF: A Benchmark for Federated Settings, 2018"
    named = ("clients",)

    by: str = hp("")
    "The column whose values are the clients, or `domain`; if empty, the only column that the data keep."
    clients: int | None = hp(None, low=1)  # type: ignore[assignment]  # others need a number
    "Number of clients, N, drawn among the values that have enough images; all of them where no number is given."
    values_per_client: int = hp(1, low=1)
    "How many values of the column a client holds the images of; where all are drawn, the last client may have fewer."
    min_samples: int = hp(0, low=0)
    "Smallest number of images of a value that is drawn, counted among those dealt out and before `fraction`."
    test: str = hp("own", choices=("own", "published", "official", "weighted"))
    "Test images: a share of the client's pooled images, its own in the published test part, or that part as a whole."

    def description(self) -> str:
        words = [f"natural clients by {self.by}" if self.by else "natural clients"]
        words += [f"{self.clients} clients"] if self.clients else []
        words += [f"{self.values_per_client} values a client"] if self.values_per_client > 1 else []
        words += [f"values of at least {self.min_samples} images"] if self.min_samples else []
        return ", ".join(words)

    def sentence(self) -> str:
        if self.test != "published":
            return super().sentence()
        return f"{replace(self, test='own').sentence()}, own images of the published test part"

    def tested(self, seed: int) -> str:
        return "own" if self.test == "published" else self.test

    def check_feasible(self, info: DatasetInfo, seeds: list[int]) -> None:
        if info.modalities:
            raise UserError("partition: 'natural' is of images alone, not of two modalities; use another kind")
        column, values = self._column(info), self._values_of(info)
        if (wanted := (self.clients or 0) * self.values_per_client) > values:
            of_each = f", {self.values_per_client} for each client" * (self.values_per_client > 1)
            raise UserError(
                f"partition.clients: the data have {values:,} values of '{column}', not {wanted:,}{of_each}"
            )
        super(Natural, self._for_form(info)).check_feasible(info, seeds)

    def check(self, images: int, classes: int, domains: int) -> None:
        """Nothing: clients have the images that they have, and some may have none of those that a quick study uses."""

    def count(self, domains: int) -> int:
        assert self.clients is not None  # those who ask have put in the number: see `_for_form` and `_for_pool`
        return self.clients

    def sizes(self, images: int, info: DatasetInfo) -> list[int]:
        """As if all values had equally many images: how many they have is in the data."""
        return super().sizes(round(self._share(info) * images), info)

    def expected(self, info: DatasetInfo, seed: int) -> Expected:
        drawn = self._for_form(info)
        if self.test != "published":
            return super(Natural, drawn).expected(info, seed)
        expected = super(Natural, replace(drawn, test="official")).expected(info, seed)
        return expected._replace(test=round(drawn._share(info) * self.used(info.images["test"])))

    def about(self, pool: Labels, seed: int) -> dict[str, Any]:
        """Also `names`: the values of each client; `untested`: how many clients have no test images of their own."""
        drawn, (_, names) = self._for_pool(pool), self._positions(pool)
        values = drawn._drawn_values(pool, drawn.generator(seed))
        about = {"clients": len(values), "words": self.sentence(), "test": self.tested(seed)}
        about |= {"names": [[names[value] for value in of_client] for of_client in values]}
        if self.test == "published":
            about |= {"untested": len(values) - len(np.unique(self._testers(pool, seed)))}
        return about

    def owners(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        """The client whose value an image has; of the whole pool, whatever is used of it."""
        positions, names = self._positions(pool)
        owner_of_value = np.full(len(names), UNUSED)
        drawn = self if self.clients else self._for_pool(pool)
        for client, values in enumerate(drawn._drawn_values(pool, random)):
            owner_of_value[values] = client
        owners: np.ndarray = owner_of_value[positions]
        return owners

    def split(self, pool: Labels, seed: int) -> pa.Table:
        drawn = self._for_pool(pool)
        if self.test != "published":
            return super(Natural, drawn).split(pool, seed)
        table = super(Natural, replace(drawn, test="official")).split(pool, seed)
        client, index = numbers(table["client"]), numbers(table["index"])
        testers = self._testers(pool, seed)
        if not len(testers):
            raise UserError(
                f"partition.test: none of the {drawn.clients} clients has images in the published test part, whose "
                f"values of '{self._column(pool)}' are others; use own or official"
            )
        owner = np.where(client == EVERYONE, self.owners(pool, self.generator(seed))[index], client)
        order = np.argsort(owner, kind="stable")[np.count_nonzero(owner == UNUSED) :]
        return rows_as_table(pool, owner[order], index[order], split_numbers(table)[order])

    def _dealt(self, pool: Labels, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """As for other kinds, but that `min_samples` counts all images: a quick study has the clients of the full one.

        The values are drawn first, so that `about` and `split` can draw them again.
        """
        owners, images = self.owners(pool, random), self._images_dealt(pool)
        used = np.sort(random.permutation(images)[: self.used(images)])
        return owners[used], used

    def _images_dealt(self, pool: Labels) -> int:
        """How many images are dealt out, the first ones of the pool."""
        return len(pool.labels) if self.test == "own" else pool.train

    def _testers(self, pool: Labels, seed: int) -> np.ndarray:
        """The client of each image of the published test part that is used and has one."""
        owners = self.owners(pool, self.generator(seed))[self._shared(pool, seed)]
        testers: np.ndarray = owners[owners != UNUSED]
        return testers

    def _drawn_values(self, pool: Labels, random: np.random.Generator) -> list[np.ndarray]:
        """The positions of the values of each client, `clients` × up to `values_per_client`."""
        chosen = random.permutation(self._large_values(pool))[: self.count(0) * self.values_per_client]
        return np.split(chosen, range(self.values_per_client, len(chosen), self.values_per_client))

    def _large_values(self, pool: Labels) -> np.ndarray:
        """The positions of the values that have enough images."""
        positions, names = self._positions(pool)
        counts = np.bincount(positions[: self._images_dealt(pool)], minlength=len(names))
        large: np.ndarray = np.flatnonzero(counts >= max(self.min_samples, 1))
        return large

    def _for_pool(self, pool: Labels) -> Self:
        """The same with the number of clients; UserError where too few values have enough images."""
        available, wanted = len(self._large_values(pool)), self.clients * self.values_per_client if self.clients else 1
        if available < wanted:
            least = max(self.min_samples, 1)
            part = "" if self.test == "own" else " in the training part"
            raise UserError(
                f"partition.min_samples: values of '{self._column(pool)}' with at least {least:,} images{part}: "
                f"{available:,} in the data, {wanted:,} needed"
            )
        return replace(self, clients=self.clients or math.ceil(available / self.values_per_client))

    def _for_form(self, info: DatasetInfo) -> Self:
        """The same with the number of clients, as if all values had enough images."""
        return replace(self, clients=self.clients or max(1, math.ceil(self._values_of(info) / self.values_per_client)))

    def _share(self, info: DatasetInfo) -> float:
        """The share of the images that clients are expected to hold."""
        return min(1.0, self.count(0) * self.values_per_client / max(self._values_of(info), 1))

    def _values_of(self, info: DatasetInfo) -> int:
        """How many values the column has."""
        return len(info.domains) if self._column(info) == DOMAIN else info.kept[self._column(info)]

    def _positions(self, pool: Labels) -> tuple[np.ndarray, tuple[str, ...]]:
        """Each image's position among the values, int64 [n], and the values."""
        if (column := self._column(pool)) != DOMAIN:
            return pool.kept[column], pool.kept_names[column]
        assert pool.domains is not None  # `_column` refuses data without domains
        return pool.domains, pool.domain_names

    def _column(self, data: DatasetInfo | Labels) -> str:
        """The column whose values are the clients; UserError where the data do not say which."""
        domains = data.domains if isinstance(data, DatasetInfo) else data.domain_names
        return column_of(self.by, data.kept, bool(len(domains)))


def column_of(by: str, kept: Iterable[str], domains: bool) -> str:
    """The column that `by` names, or the only one kept; UserError where there is none such."""
    columns = sorted(kept)
    if by == DOMAIN and not domains:
        raise UserError("partition.by: 'domain' needs a data set with domains, such as digit5 or office10")
    if by == DOMAIN or by in columns:
        return by
    if not columns:
        also = ", or use `by: domain`" if domains else ""
        wanted = by or "writer_id"
        raise UserError(
            "partition: 'natural' needs a column of the data that says whose each image is; keep one with the data, "
            f"as in {{name: table, path: …, keep: {wanted}}}{also}"
        )
    if by:
        raise UserError(f"partition.by: the data keep no column '{by}'; {nearest(by, columns)}")
    if len(columns) > 1:
        raise UserError(f"partition.by: the data keep several columns, {', '.join(columns)}; choose one")
    return columns[0]
