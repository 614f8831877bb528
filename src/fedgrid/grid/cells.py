"""The product methods × data sets × heterogeneity × seeds, every cell with its identity and its place in the store.

The key of a file stands in its path and covers all that the file depends on, so existence is the cache:

    data        name, settings, code of the data set, and the local copy where it is not the original
    features    key of the data, backbone and its weights, code of the features
    partition   kind, settings, key of the data, code of the partition; the seed stands in the file's name
    cell        method, hyperparameters, model, training, seed, key of the partition, code the cell can reach
"""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.components import resolve
from fedgrid.data.base import PARTS, Form
from fedgrid.errors import UserError
from fedgrid.files import beside
from fedgrid.grid.identity import canonical, digest, fingerprint
from fedgrid.loading import load

RUNNER = "fedgrid.jobs.cell"
HOW = ("checkpoint_every", "device", "executor", "client_chunk", "gpu_share", "threads")
"What of a study's `compute` the process of a cell is told."
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

    def code(self) -> str:
        """Fingerprint of the component's code."""
        file = self.description["file"]
        return fingerprint(self.description["module"], Path(file) if file else None)


@dataclass(frozen=True)
class Data:
    """A data set's place in the store: its images, or the features that a backbone makes of them."""

    label: str
    variant: Variant
    form: Form
    key: str
    files: Mapping[str, Path]
    images: "Data | None" = None
    "Where these are features: the images that they are made of."
    backbone: Mapping[str, Any] | None = None
    "Where these are features: settings of the backbone."

    @property
    def stages(self) -> tuple["Data", ...]:
        """What is made, in order: the images, and then the features where these are features."""
        return (self.images, self) if self.images else (self,)

    @property
    def kind(self) -> str:
        """The job of `fedgrid.jobs.prepare` that makes it, and its folder in the store."""
        return "features" if self.images else "data"

    @property
    def title(self) -> str:
        """The name in tables and figures."""
        own = self.variant.description["title"] if self.label == self.variant.name else self.label
        return f"{own} ({self.backbone['backbone']} features)" if self.backbone else own

    @property
    def spec(self) -> dict[str, Any]:
        """What it is, as it stands in a cell's specification."""
        spec = self.variant.spec | ({"copy": self.form.copy} if self.form.copy else {})
        return spec | ({"backbone": dict(self.backbone)} if self.backbone else {})

    @property
    def paths(self) -> dict[str, str]:
        """The files as JSON can hold them."""
        return {part: str(file) for part, file in self.files.items()}

    def job(self, root: Path | None, download: Path | None, device: str, threads: int) -> dict[str, Any]:
        """What `fedgrid.jobs.prepare` is told to make it; see `DataSet.load` for `root` and `download`."""
        if self.images:
            how = {"backbone": self.backbone, "download": bool(download), "device": device, "threads": threads}
            return {"images": self.images.paths, "files": self.paths, **how}
        sources = {"root": root and str(root), "download": download and str(download)}
        return {"spec": self.variant.spec, "files": self.paths, **sources}


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
        return self.variant.spec | {"data": self.data.spec, "seed": self.seed}

    def job(self) -> dict[str, Any]:
        """What `fedgrid.jobs.prepare` is told to build this partition."""
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
    keep: tuple[str, ...] = ()
    "What the study keeps of it beside its results; no part of its identity."

    @property
    def files(self) -> list[Path]:
        """Its results, and what is kept beside them."""
        return [self.file, *beside(self.file, self.keep)]

    @property
    def done(self) -> bool:
        """Whether all its files are there."""
        return all(file.is_file() for file in self.files)

    @property
    def store(self) -> Path:
        return self.file.parents[4]

    @property
    def log(self) -> Path:
        """What its last attempt said."""
        return self.store / "logs" / self.file.relative_to(self.store).with_suffix(".log")

    @property
    def status(self) -> Path:
        """What its process notes while it has no results; see `fedgrid.jobs.reporting.Status`."""
        return self.store / "status" / f"{self.key}.json"

    @property
    def needs(self) -> list[Path]:
        """The files that it is trained on."""
        return [self.split.file, *self.split.data.files.values()]

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

    def arguments(self, compute: Mapping[str, Any]) -> list[str]:
        """The command line of `fedgrid.jobs.cell`; `compute` is a study's part of that name."""
        # the checkpoint is no output of the job: it outlives an attempt that failed
        places = {"out": self.file, "checkpoint": self.store / "checkpoints" / f"{self.key}.pt", "status": self.status}
        how = places | {name: compute[name] for name in HOW}
        return [canonical(self.job()), *(f"--{name.replace('_', '-')}={value}" for name, value in how.items())]

    def job(self) -> dict[str, Any]:
        """What the process that trains this cell is told, as JSON."""
        files = {"partition": str(self.split.file), "data": self.split.data.paths}
        described = self.method.variant.description
        code = {key: described[key] for key in ("reference", "module", "file")}
        code |= {"also": also(self.model), "fingerprint": self.code}
        return {"key": self.key, "spec": self.spec, "files": files, "code": code, "keep": self.keep}


def variant(description: Description, given: Mapping[str, Any], where: str) -> Variant:
    """A component with the `given` settings over its defaults; UserError for a wrong one."""
    return Variant(description, resolve(description, given, where))


def data_in(store: Path, label: str, data: Variant, root: Path | None) -> Data:
    """Where a data set is kept, as the local files under `root` or the original give it."""
    form = load("data", data.name)(**data.settings).form(root)
    key = digest([data.spec, form.copy, data.code()])
    return Data(label, data, form, key, _files(store / "data" / f"{label}-{key}"))


def features_in(store: Path, images: Data, backbone: Mapping[str, Any]) -> Data:
    """Where the features of a data set are kept."""
    weights = Path(backbone["weights"]).expanduser()
    content = hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else ""
    key = digest([images.key, backbone, content, fingerprint("fedgrid.engine.features")])
    form = replace(images.form, shape=(1, 1, 1))
    files = _files(store / "features" / f"{images.label}-{key}")
    return Data(images.label, images.variant, form, key, files, images, backbone)


def _files(folder: Path) -> dict[str, Path]:
    return {part: folder / f"{part}.parquet" for part in PARTS}


def slug(partition: Variant) -> str:
    """A partition's folder name: its kind, the settings that always stand there and those that are not the default."""
    named, parameters = partition.description["facts"]["named"], partition.description["parameters"]
    unusual = [p["name"] for p in parameters if partition.settings[p["name"]] != p["default"]]
    shown = [name for name in named if partition.settings[name] is not None]
    shown += [name for name in unusual if name not in named and name != "path"]
    return "-".join([partition.name, *(_setting(name, partition.settings[name]) for name in shown)])


def _setting(name: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{name}{value}"


def split_in(store: Path, partition: Variant, code: str, data: Data, seed: int) -> Split:
    """Where a partition is kept; `code` is the fingerprint of its code."""
    identity = load("partition", partition.name)(**partition.settings).identity(seed)
    key = digest([identity or partition.spec, data.key, code])
    file = store / "partitions" / data.label / f"{slug(partition)}-{key}" / f"seed={seed}.parquet"
    return Split(partition, data, seed, key, file)


def also(model: Variant) -> list[str]:
    """The modules that a cell needs beside its method's."""
    return [RUNNER, model.description["module"]]


def code_of(module: str, file: str | None, model: Variant) -> str:
    """Fingerprint of the code that a method's cells can reach: its own, the model's and the engine's."""
    return fingerprint(module, Path(file) if file else None, also(model))


def cell_in(store: Path, method: Method, code: str, split: Split, model: Variant, seed: int, train_seed: int) -> Cell:
    """Where a cell is kept; `code` is the fingerprint of all code that it can reach."""
    heterogeneity = slug(split.variant)
    identity = [method.variant.spec, model.spec, dict(method.training), split.key, split.seed, train_seed, code]
    key = digest(identity)
    folder = store / "cells" / method.variant.name / split.data.label / heterogeneity
    return Cell(method, split, model, heterogeneity, seed, train_seed, code, key, folder / f"s{seed}-{key}.parquet")


def grid(
    store: Path,
    methods: list[Method],
    data: list[Data],
    partitions: list[Variant],
    model: Variant,
    seeds: list[tuple[int, int, int]],
) -> list[Cell]:
    """All cells; `seeds` are (seed, partition seed, training seed). Methods vary slowest, seeds fastest."""
    kinds = [(partition, partition.code()) for partition in partitions]
    splits = {
        (d, p, s): split_in(store, *kinds[p], data[d], s)
        for d, p, s in product(range(len(data)), range(len(partitions)), {s for _, s, _ in seeds})
    }
    code = functools.cache(lambda module, file: code_of(module, file, model))  # rows may be of the same method
    described = {method.label: method.variant.description for method in methods}
    codes = {label: code(about["module"], about["file"]) for label, about in described.items()}
    return [
        cell_in(store, method, codes[method.label], splits[d, p, partition_seed], model, seed, train_seed)
        for method, d, p, (seed, partition_seed, train_seed) in product(
            methods, range(len(data)), range(len(partitions)), seeds
        )
    ]


def check_fit(data: Data, partitions: list[Variant], model: Variant, seeds: list[int]) -> None:
    """Raises UserError where the data set cannot be split so, or its images are too small for the model."""
    if min(data.form.shape[:2]) < (smallest := model.description["facts"]["smallest"]):
        side = "×".join(map(str, data.form.shape[:2]))
        raise UserError(
            f"model: '{model.name}' needs images of {smallest}×{smallest} at least, '{data.label}' has {side}"
        )
    for partition in partitions:
        load("partition", partition.name)(**partition.settings).plan(data.form, seeds)
