"""The product methods × data sets × heterogeneity × seeds, every cell with its identity and its place in the store.

The key of a file stands in its path and covers all that the file depends on, so existence is the cache:

    data        name, code of the data set
    partition   kind, settings, seed, key of the data, code of the partition
    cell        method, hyperparameters, model, training, seed, key of the partition, code the cell can reach
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.components import resolve
from fedgrid.errors import UserError
from fedgrid.grid.identity import digest, fingerprint
from fedgrid.loading import load

RUNNER = "fedgrid.cell"
Description = Mapping[str, Any]


@dataclass(frozen=True)
class Variant:
    """A component with all its settings."""

    description: Description
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.description["name"]

    @property
    def spec(self) -> dict[str, Any]:
        """Name and settings, as they stand in a cell's specification."""
        return {"name": self.name, "settings": dict(self.settings)}

    def code(self, also: Iterable[str] = ()) -> str:
        """Fingerprint of the component's code."""
        file = self.description["file"]
        return fingerprint(self.description["module"], Path(file) if file else None, also)


@dataclass(frozen=True)
class Data:
    """A data set's place in the store."""

    variant: Variant
    key: str
    files: Mapping[str, Path]

    @property
    def paths(self) -> dict[str, str]:
        """The files as JSON can hold them."""
        return {part: str(file) for part, file in self.files.items()}

    def job(self, root: Path | None, download: Path | None) -> dict[str, Any]:
        """What `fedgrid.prepare` is told to build this data set; see `DataSet.load` for `root` and `download`."""
        sources = {"root": root and str(root), "download": download and str(download)}
        return {"name": self.variant.name, "files": self.paths, **sources}


@dataclass(frozen=True)
class Split:
    """A partition of a data set: its specification and its file."""

    variant: Variant
    data: Data
    seed: int
    key: str
    file: Path

    @property
    def spec(self) -> dict[str, Any]:
        return self.variant.spec | {"data": self.data.variant.spec, "seed": self.seed}

    def job(self) -> dict[str, Any]:
        """What `fedgrid.prepare` is told to build this partition."""
        return {"spec": self.spec, "data": self.data.paths, "file": str(self.file)}


@dataclass(frozen=True)
class Method:
    """A row of the tables: a method with its hyperparameters, and the training settings it is run with."""

    label: str
    title: str
    variant: Variant
    training: Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One training job."""

    method: Method
    split: Split
    model: Variant
    heterogeneity: str
    seed: int
    train_seed: int
    code: str
    "Fingerprint of all code that the cell can reach."
    key: str
    file: Path

    @property
    def spec(self) -> dict[str, Any]:
        """All that the result depends on, but the code: plain values."""
        return {
            "method": self.method.variant.spec,
            "model": self.model.spec,
            "training": dict(self.method.training),
            "partition": self.split.spec,
            "seed": self.train_seed,
        }

    def job(self) -> dict[str, Any]:
        """What the process that trains this cell is told, as JSON."""
        files = {"partition": str(self.split.file), "data": self.split.data.paths}
        described = self.method.variant.description
        code = {key: described[key] for key in ("reference", "module", "file")}
        code |= {"also": also(self.model), "fingerprint": self.code}
        return {"key": self.key, "spec": self.spec, "files": files, "code": code}


def variant(description: Description, given: Mapping[str, Any], where: str) -> Variant:
    """A component with the `given` settings over its defaults; UserError for a wrong one."""
    return Variant(description, resolve(description, given, where))


def data_in(store: Path, data: Variant) -> Data:
    """Where a data set is kept."""
    key = digest([data.spec, data.code()])
    folder = store / "data" / f"{data.name}-{key}"
    return Data(data, key, {part: folder / f"{part}.parquet" for part in ("train", "test")})


def slug(partition: Variant) -> str:
    """A partition's folder name: its kind, the settings that always stand there and those that are not the default."""
    named, parameters = partition.description["facts"]["named"], partition.description["parameters"]
    unusual = [p["name"] for p in parameters if partition.settings[p["name"]] != p["default"]]
    shown = named + [name for name in unusual if name not in named]
    return "-".join([partition.name, *(f"{name}{partition.settings[name]}" for name in shown)])


def split_in(store: Path, partition: Variant, data: Data, seed: int) -> Split:
    """Where a partition is kept."""
    key = digest([partition.spec, seed, data.key, partition.code()])
    file = store / "partitions" / data.variant.name / slug(partition) / f"s{seed}-{key}.parquet"
    return Split(partition, data, seed, key, file)


def also(model: Variant) -> list[str]:
    """The modules that a cell needs beside its method's."""
    return [RUNNER, model.description["module"]]


def code_of(method: Method, model: Variant) -> str:
    """Fingerprint of the code that a method's cells can reach: its own, the model's and the engine's."""
    return method.variant.code(also(model))


def cell_in(store: Path, method: Method, code: str, split: Split, model: Variant, seed: int, train_seed: int) -> Cell:
    """Where a cell is kept; `code` is the fingerprint of all code that it can reach."""
    heterogeneity = slug(split.variant)
    identity = [method.variant.spec, model.spec, dict(method.training), split.key, train_seed, code]
    key = digest(identity)
    folder = store / "cells" / method.variant.name / split.data.variant.name / heterogeneity
    return Cell(method, split, model, heterogeneity, seed, train_seed, code, key, folder / f"s{seed}-{key}.parquet")


def grid(
    store: Path,
    methods: list[Method],
    data: list[Variant],
    partitions: list[Variant],
    model: Variant,
    seeds: list[tuple[int, int, int]],
) -> list[Cell]:
    """All cells; `seeds` are (seed, partition seed, training seed). Methods vary slowest, seeds fastest."""
    kept = [data_in(store, d) for d in data]
    splits = {
        (d, p, s): split_in(store, partitions[p], kept[d], s)
        for d, p, s in product(range(len(kept)), range(len(partitions)), {s for _, s, _ in seeds})
    }
    codes = {method.label: code_of(method, model) for method in methods}
    return [
        cell_in(store, method, codes[method.label], splits[d, p, partition_seed], model, seed, train_seed)
        for method, d, p, (seed, partition_seed, train_seed) in product(
            methods, range(len(kept)), range(len(partitions)), seeds
        )
    ]


def check_fit(data: Variant, partitions: list[Variant], model: Variant) -> None:
    """Raises UserError where the data set cannot be split so, or its images are too small for the model."""
    facts = data.description["facts"]
    if min(facts["shape"][:2]) < (smallest := model.description["facts"]["smallest"]):
        side = "×".join(map(str, facts["shape"][:2]))
        raise UserError(
            f"model: '{model.name}' needs images of {smallest}×{smallest} at least, '{data.name}' has {side}"
        )
    for partition in partitions:
        instance = load("partition", partition.name)(**partition.settings)
        instance.check(instance.used(facts["images"]), facts["classes"])
