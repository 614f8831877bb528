"""A study: what a researcher writes in YAML, resolved into cells."""

import functools
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from fedgrid.components import describe, resolve
from fedgrid.data.common.images import DatasetInfo
from fedgrid.errors import UserError, reason
from fedgrid.files import path_of
from fedgrid.grid import cells
from fedgrid.grid.catalog import description
from fedgrid.grid.planned import Configured, MethodRow, PlannedDataset, Settings, Study
from fedgrid.loading import names
from fedgrid.settings import Backbone, Compute, Training

Description = Mapping[str, Any]
"What `fedgrid.grid.catalog.description` says of a component."
RESERVED = ("method", "title", "training")
"Keys of a method's entry that are not hyperparameters."
DATA_RESERVED = ("label", "features")
"Keys of a data set's entry that are not settings of the data set."
MOST_NODES = 100_000
"Values that a study may hold once its aliases are replaced by what they stand for."
PUBLISHED = "file:"
"Before the path of a published partition."


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is a mistake, not a silent loss; merge keys (``<<``) work."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        own = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        keys = [self.construct_object(key, deep=True) for key in own]
        for twice in {str(key) for key in keys if keys.count(key) > 1}:
            raise yaml.constructor.ConstructorError(
                problem=f"the key '{twice}' stands twice", problem_mark=node.start_mark
            )
        return super().construct_mapping(node, deep)


def read(file: Path) -> Any:
    """The YAML of a study, unchecked; UserError where there is none or it is not YAML."""
    try:
        if file.exists() and not file.is_file():
            raise UserError(f"{file}: is no file")
        text = file.read_text(encoding="utf-8")
        _check_size(file, yaml.compose(text, yaml.SafeLoader))
        return yaml.load(text, _Loader)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({reason(error)})") from error
    except (ValueError, OverflowError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from error
    except RecursionError as error:
        raise UserError(f"{file}: not a study, it is nested too deeply") from error
    except yaml.YAMLError as error:
        line = f" in line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        raise UserError(f"{file}: not YAML{line} ({getattr(error, 'problem', error)})") from error


def _check_size(file: Path, top: yaml.Node | None) -> None:
    """Raises UserError for aliases that make a small file endless or huge."""
    sizes: dict[int, float] = {}

    def size(node: yaml.Node) -> float:
        if id(node) not in sizes:
            sizes[id(node)] = float("inf")  # what is met again below itself has no end
            inner = itertools.chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
            sizes[id(node)] = 1 + sum(map(size, inner if isinstance(node, yaml.CollectionNode) else ()))
        return sizes[id(node)]

    if top is not None and size(top) > MOST_NODES:
        raise UserError(f"{file}: its aliases (*name) stand for more than {MOST_NODES:,} values")


def resolved(text: Mapping[str, Any]) -> Study:
    """Every cell of a study whose form was `validation.checked`; UserError, with the key, for any mistake.

    Writes nothing: a study may be looked at while a run is going, and where nothing can be written.
    """
    text = dict(text) | {"results": str(path_of(text["results"], "results"))}
    store, root = Path(text["results"]) / "store", data_root(text)
    compute = Compute(**resolve(describe(Compute), text.get("compute", {}), "compute"))
    training = resolve(describe(Training), text["training"], "training")
    found = functools.cache(lambda reference: description("methods", reference))
    rows = [_row(label, entry or {}, training, found) for label, entry in _labelled(text["methods"]).items()]
    model, about_model = _component("models", text["model"], "model")
    seeds = _seeds(text)
    heterogeneity = [_heterogeneity(number, entry) for number, entry in enumerate(text["heterogeneity"])]
    if len({slug for _, slug, _ in heterogeneity}) < len(heterogeneity):
        raise UserError("heterogeneity: the same partition stands there twice")
    entries = text["data"] if isinstance(text["data"], list) else [text["data"]]
    datasets = [_dataset(entry, store, root) for entry in entries]
    _check_labels([data.label for data, _ in datasets])
    kinds, partition_seeds = [kind for kind, _, _ in heterogeneity], [seed for _, seed, _ in seeds]
    for data, info in datasets:
        cells.check_fit(data.label, info, kinds, about_model["facts"]["smallest"], model.name, partition_seeds)
        _check_at_hand(data, root, text["download"])
    cells.check_validation(text.get("report", {}), kinds, partition_seeds)
    grid = cells.grid(rows, [data for data, _ in datasets], heterogeneity, model, seeds)
    artifacts = tuple(text.get("artifacts", ()))
    return Study(text, training, compute, rows, model, [replace(cell, artifacts=artifacts) for cell in grid], root)


def data_root(text: Mapping[str, Any]) -> Path | None:
    """Where data sets lie on this machine: the study's `data_root`, else the environment variable FEDGRID_DATA."""
    given = text.get("data_root") or os.environ.get("FEDGRID_DATA")
    if not given:
        return None
    key = "data_root" if text.get("data_root") else "FEDGRID_DATA"
    root = path_of(given, key)
    if not root.is_dir():
        raise UserError(f"{key}: there is no folder {given}")
    return root


def _seeds(text: Mapping[str, Any]) -> list[cells.Seeds]:
    if len(text["seeds"]) > 1 and "partition_seed" in text and "train_seed" in text:
        raise UserError("seeds: with both partition_seed and train_seed fixed, all seeds would be one and the same run")
    return [(seed, text.get("partition_seed", seed), text.get("train_seed", seed)) for seed in text["seeds"]]


def _labelled(methods: list[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    return methods if isinstance(methods, Mapping) else dict.fromkeys(methods)


def _row(label: str, entry: Mapping[str, Any], common: Settings, described: Callable[[str], Description]) -> MethodRow:
    found = described(entry.get("method", label))
    for name in {parameter["name"] for parameter in found["parameters"]}.intersection(RESERVED):
        raise UserError(f"methods.{label}: its setting '{name}' needs another name: this one means something else here")
    given = {key: value for key, value in entry.items() if key not in RESERVED}
    training = resolve(describe(Training), common | entry.get("training", {}), f"methods.{label}.training")
    plain = label == found["name"] or label.endswith(".py")
    title = entry.get("title", found["title"] if plain else label)
    component = _configured(found, given, f"methods.{label}")
    _check_plain_rates(label, component, found["facts"]["plain_rates"], training)
    return MethodRow(label, title, component, training, found["facts"]["work"])


def _check_plain_rates(label: str, component: Configured, rates: Sequence[str], training: Settings) -> None:
    """Raises UserError where steps of plain SGD would take a rate that is meant for Adam or for momentum."""
    if training["optimizer"] == "sgd" and not training["momentum"]:
        return
    meant = "Adam" if training["optimizer"] == "adam" else f"a momentum of {training['momentum']:g}"
    for name in rates:
        if component.settings[name] is None:
            rate = f"the study's rate of {training['lr']:g}, which is meant for {meant}"
            raise UserError(f"methods.{label}: its steps are plain SGD, and {rate}, would be theirs; set {name}")


def _component(
    kind: str, entry: str | Mapping[str, Any], where: str, key: str = "name"
) -> tuple[Configured, Description]:
    """A component from its name, or from a mapping that names it under `key`, beside its settings."""
    named = {key: entry} if isinstance(entry, str) else entry
    found = description(kind, named[key])
    return _configured(found, {k: v for k, v in named.items() if k != key}, where), found


def _configured(found: Description, given: Settings, where: str) -> Configured:
    """A component with the `given` settings over its defaults; UserError for a wrong one."""
    named = {name: found[name] for name in ("name", "title", "reference", "module", "file")}
    return Configured(**named, settings=resolve(found, given, where))


def _heterogeneity(number: int, entry: Mapping[str, Any]) -> tuple[Configured, str, str]:
    """A kind of partition, its slug and place: the kind, the settings that always stand there, and unusual ones."""
    kind, about = _component("partition", _published(entry), f"heterogeneity.{number}", key="partition")
    named, settings = about["facts"]["named"], kind.settings
    unusual = [p["name"] for p in about["parameters"] if settings[p["name"]] != p["default"]]
    shown = [name for name in named if settings[name] is not None]
    shown += [name for name in unusual if name not in named and name != "path"]
    slug, place = (
        "-".join([kind.name, *(_in_slug(name, settings[name]) for name in names)])
        for names in (shown, [name for name in shown if name != "label"])
    )
    return kind, slug, place


def _in_slug(name: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{name}{value}"


def _published(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry of a partition, in which ``file:PATH`` is taken apart."""
    kind = entry["partition"]
    if not kind.startswith(PUBLISHED):
        return entry
    path = kind.removeprefix(PUBLISHED)
    place = Path(path)
    name = place.parent.name if "{seed}" in path else place.stem  # of one file a seed, the folder's name speaks
    return {"label": _label(name), **entry, "partition": "file", "path": path}


def _dataset(given: str | Mapping[str, Any], store: Path, root: Path | None) -> tuple[PlannedDataset, DatasetInfo]:
    """A data set from its name, from a path, or from a mapping of either under ``name`` and of settings."""
    entry: dict[str, Any] = {"name": given} if isinstance(given, str) else dict(given)
    name: str = entry["name"]
    if name not in names("data") and ((place := path_of(name, "data")).exists() or os.sep in name):  # the user's own
        table = name.endswith(".parquet") or (place / "train.parquet").is_file()
        entry = {"label": _label(Path(name).stem)} | entry | {"name": "table" if table else "folder", "path": name}
    settings = {key: value for key, value in entry.items() if key not in DATA_RESERVED}
    label = entry.get("label", entry["name"])
    images, info = cells.plan_dataset(store, label, _component("data", settings, "data")[0], root)
    wanted = entry.get("features")
    if not wanted:
        return images, info
    chosen = wanted if isinstance(wanted, Mapping) else {} if wanted is True else {"backbone": wanted}
    return cells.plan_features(images, info, resolve(describe(Backbone), chosen, "data.features"))


def _label(name: str) -> str:
    """What of a name can stand in a path and in a figure's file name."""
    return re.sub(r"[^\w.-]+", "-", name)[:100].strip("-.") or "data"


def _check_labels(labels: list[str]) -> None:
    for label in {label for label in labels if labels.count(label) > 1}:
        raise UserError(f"data: '{label}' stands there twice; give one of them another label")


def _check_at_hand(data: PlannedDataset, root: Path | None, download: bool) -> None:
    """Raises UserError for data that are neither built, nor at hand, nor to be downloaded."""
    if any(stage.built for stage in data.stages) or download or cells.instance(data.component).found(root):
        return
    raise UserError(
        f"data: '{data.label}' is not at hand and download is false; put it under data_root "
        "(or FEDGRID_DATA) or allow the download"
    )
