"""A study: what a researcher writes in YAML, resolved into cells."""

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from fedgrid.components import describe, resolve
from fedgrid.errors import UserError
from fedgrid.files import check_writable
from fedgrid.grid import cells
from fedgrid.grid.catalog import description
from fedgrid.grid.cells import Cell, Data, Method, Split, Variant, variant
from fedgrid.loading import load, names
from fedgrid.settings import Backbone, Training

RESERVED = ("method", "title", "training")
"Keys of a method's entry that are not hyperparameters."
DATA_RESERVED = ("label", "features")
"Keys of a data set's entry that are not settings of the data set."
PUBLISHED = "file:"
"Before the path of a published partition."


@dataclass(frozen=True)
class Study:
    """A resolved study: its text and training settings with defaults, its methods, and its cells."""

    text: Mapping[str, Any]
    training: Mapping[str, Any]
    methods: list[Method]
    model: Variant
    cells: list[Cell]

    @property
    def name(self) -> str:
        return self.text["name"]

    @property
    def by_key(self) -> dict[str, Cell]:
        """Every cell once: two rows of a table may show the same one."""
        return {cell.key: cell for cell in self.cells}

    @property
    def results(self) -> Path:
        """The folder of all studies."""
        return Path(self.text["results"])

    @property
    def folder(self) -> Path:
        """The folder of this study's tables and figures."""
        return self.results / self.name

    @property
    def partial(self) -> Path:
        """The folder of the tables and figures that ``fedgrid report`` makes of those cells that are finished."""
        return self.folder / "partial"

    @property
    def store(self) -> Path:
        """The folder of data, partitions and cells, shared by all studies."""
        return self.results / "store"

    @property
    def downloads(self) -> Path | None:
        """Where downloads are kept, or None where the study forbids them."""
        return self.store / "downloads" if self.text["download"] else None

    @property
    def data(self) -> list[Data]:
        """Data sets that cells train on."""
        return list({cell.split.data.key: cell.split.data for cell in self.cells}.values())

    @property
    def kept(self) -> list[Data]:
        """Data sets to be kept in the store: those that cells train on, and the images of features."""
        return list({d.key: d for data in self.data for d in data.stages}.values())

    @property
    def splits(self) -> list[Split]:
        return list({(cell.split.key, cell.split.seed): cell.split for cell in self.cells}.values())


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is a mistake, not a silent loss."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for twice in {str(key) for key in keys if keys.count(key) > 1}:
            raise yaml.constructor.ConstructorError(
                problem=f"the key '{twice}' stands twice", problem_mark=node.start_mark
            )
        return super().construct_mapping(node, deep)


def read(file: Path) -> Any:
    """The YAML of a study, unchecked; UserError where there is none or it is not YAML."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from error
    except yaml.YAMLError as error:
        line = f" in line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        raise UserError(f"{file}: not YAML{line} ({getattr(error, 'problem', error)})") from error


def resolved(study: Mapping[str, Any]) -> Study:
    """Every cell of a study whose form was `validation.checked`; UserError, with the key, for any mistake."""
    study = dict(study) | {
        "results": str(Path(study["results"]).expanduser()),
        "seeds": [int(seed) for seed in study["seeds"]],  # a JSON schema takes 1.0 for a whole number
    }
    store = Path(study["results"]) / "store"
    if not store.is_dir():  # one that is there may be looked at even where nothing can be written
        check_writable(store, "results")
    common = resolve(describe(Training), study["training"], "training")
    found = functools.cache(lambda reference: description("methods", reference, store / "descriptions"))
    methods = [_method(label, entry or {}, common, found) for label, entry in _labelled(study["methods"]).items()]
    model = _component("models", study["model"], "model", store)
    entries = study["data"] if isinstance(study["data"], list) else [study["data"]]
    data = [_data(entry, store, data_root(study)) for entry in entries]
    labels = [one.label for one in data]
    for label in {label for label in labels if labels.count(label) > 1}:
        raise UserError(f"data: '{label}' stands there twice; give one of them another label")
    partitions = [
        _component("partition", _published(entry), f"heterogeneity.{i}", store, key="partition")
        for i, entry in enumerate(study["heterogeneity"])
    ]
    if len({cells.slug(p) for p in partitions}) < len(partitions):
        raise UserError("heterogeneity: the same partition stands there twice")
    if len(study["seeds"]) > 1 and "partition_seed" in study and "train_seed" in study:
        raise UserError("seeds: with both partition_seed and train_seed fixed, all seeds would be one and the same run")
    seeds = [(s, study.get("partition_seed", s), study.get("train_seed", s)) for s in study["seeds"]]
    for one in data:
        cells.check_fit(one, partitions, model, [seed for _, seed, _ in seeds])
    grid = cells.grid(store, methods, data, partitions, model, seeds)
    whole = Study(study, common, methods, model, [replace(cell, keep=tuple(study.get("keep", ()))) for cell in grid])
    _check_data(whole)
    return whole


def data_root(text: Mapping[str, Any]) -> Path | None:
    """Where data sets lie on this machine: the study's `data_root`, else the environment variable FEDGRID_DATA."""
    given = text.get("data_root") or os.environ.get("FEDGRID_DATA")
    if given and not Path(given).expanduser().is_dir():
        key = "data_root" if text.get("data_root") else "FEDGRID_DATA"
        raise UserError(f"{key}: there is no folder {given}")
    return Path(given).expanduser() if given else None


def _labelled(methods: list[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    return methods if isinstance(methods, Mapping) else dict.fromkeys(methods)


def _method(
    label: str, entry: Mapping[str, Any], common: Mapping[str, Any], described: Callable[[str], Mapping[str, Any]]
) -> Method:
    found = described(entry.get("method", label))
    given = {key: value for key, value in entry.items() if key not in RESERVED}
    training = resolve(describe(Training), common | entry.get("training", {}), f"methods.{label}.training")
    plain = label == found["name"] or label.endswith(".py")
    title = entry.get("title", found["title"] if plain else label)
    return Method(label, title, variant(found, given, f"methods.{label}"), training)


def _component(kind: str, entry: str | Mapping[str, Any], where: str, store: Path, key: str = "name") -> Variant:
    """A component from its name, or from a mapping that names it under `key`, beside its settings."""
    named = {key: entry} if isinstance(entry, str) else entry
    found = description(kind, named[key], store / "descriptions")
    return variant(found, {k: v for k, v in named.items() if k != key}, where)


def _data(entry: str | Mapping[str, Any], store: Path, root: Path | None) -> Data:
    """A data set from its name, from a path, or from a mapping of either under ``name`` and of settings."""
    entry = {"name": entry} if isinstance(entry, str) else dict(entry)
    name = entry["name"]
    if name not in names("data") and (os.sep in name or Path(name).exists()):  # the user's own
        table = name.endswith(".parquet") or (Path(name) / "train.parquet").is_file()
        entry = {"label": _label(Path(name).stem)} | entry | {"name": "table" if table else "folder", "path": name}
    settings = {key: value for key, value in entry.items() if key not in DATA_RESERVED}
    label = entry.get("label", entry["name"])
    if label != _label(label):
        raise UserError(f"data.label: '{label}' must be letters, digits, '_', '.' and '-'")
    images = cells.data_in(store, label, _component("data", settings, "data", store), root)
    wanted = entry.get("features")
    if not wanted:
        return images
    given = wanted if isinstance(wanted, Mapping) else {} if wanted is True else {"backbone": wanted}
    return cells.features_in(store, images, resolve(describe(Backbone), given, "data.features"))


def _published(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry of a partition, in which ``file:PATH`` is taken apart."""
    kind = entry["partition"]
    if not kind.startswith(PUBLISHED):
        return entry
    path = kind.removeprefix(PUBLISHED)
    place = Path(path)
    name = place.parent.name if "{seed}" in path else place.stem  # of one file a seed, the folder's name speaks
    return {"label": _label(name)} | entry | {"partition": "file", "path": path}


def _label(name: str) -> str:
    """What of a name can stand in a path and in a figure's file name."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-") or "data"


def _check_data(study: Study) -> None:
    """Raises UserError for data that are neither built, nor at hand, nor to be downloaded."""
    root = data_root(study.text)
    for data in study.data:
        built = any(all(file.is_file() for file in d.files.values()) for d in data.stages)
        source = load("data", data.variant.name)(**data.variant.settings)
        if not built and not study.text["download"] and not source.found(root):
            raise UserError(
                f"data: '{data.label}' is not at hand and download is false; put it under data_root "
                "(or FEDGRID_DATA) or allow the download"
            )
