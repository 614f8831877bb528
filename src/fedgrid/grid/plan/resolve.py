"""A study: what a researcher writes in YAML, resolved into experiments and their cells."""

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgrid.components import describe, resolve
from fedgrid.data.common.images import DatasetInfo
from fedgrid.errors import UserError
from fedgrid.files import path_of, slug
from fedgrid.grid.plan import product
from fedgrid.grid.plan.model import Cell, PlannedDataset
from fedgrid.grid.plan.planned_study import Experiment, Study, folder_of
from fedgrid.grid.study import overlay
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.experiments import Described, Text, chosen, described, under_all
from fedgrid.grid.study.model import FULL, Configured, Heterogeneity, MethodRow, Settings
from fedgrid.grid.study.validation import checked, located
from fedgrid.loading import names
from fedgrid.partition.file import name_of
from fedgrid.settings import Backbone, Compute, Training

Description = Mapping[str, Any]
"What `fedgrid.grid.study.catalog.description` says of a component."
READ_BY_DEFAULT = {"score": "paper", "at": "last"}
"Keys of a study's `report`, and of a method's entry in place of it: how cells are read."
RESERVED = ("method", "title", "training", *READ_BY_DEFAULT)
"Keys of a method's entry that are not hyperparameters."
DATA_RESERVED = ("label", "features")
"Keys of a data set's entry that are not settings of the data set."
PUBLISHED = "file:"
"Before the path of a published partition."


def resolved(text: Text) -> Study:
    """The study with those of its experiments that its `only` asks for; as `with_all_experiments` otherwise."""
    return selected(with_all_experiments(text))


def with_all_experiments(text: Text) -> Study:
    """Every cell of a study whose form was `validation.checked`; UserError, with the key, for any mistake.

    Writes nothing: a study may be looked at while a run is going, and where nothing can be written.
    """
    text = {"scale": FULL, "report": {}, **text, "results": str(path_of(text["results"], "results"))}
    compute = Compute(**resolve(describe(Compute), text.get("compute", {}), "compute"))
    root, folder = data_root(text), folder_of(text)
    found = [_experiment(one, text, folder, root) for one in described(text)]
    kept = _artifacts(found)
    experiments = [replace(one, cells=[replace(cell, artifacts=kept[cell.key]) for cell in one.cells]) for one in found]
    return Study(text, compute, experiments, root)


def selected(study: Study) -> Study:
    """The study with those of its experiments that its `only` asks for; UserError where there is no such experiment."""
    wanted = chosen(study.text, [one.id for one in study.experiments])
    return replace(study, experiments=[one for one in study.experiments if one.id in wanted])


def _artifacts(experiments: Iterable[Experiment]) -> dict[str, tuple[str, ...]]:
    """By key, what any experiment keeps of a cell: what one of them needs later is kept when another has it trained."""
    kept: dict[str, tuple[str, ...]] = {}
    for cell in (cell for one in experiments for cell in one.cells):
        kept[cell.key] = tuple(sorted({*kept.get(cell.key, ()), *cell.artifacts}))
    return kept


def _experiment(one: Described, study: Text, folder: Path, root: Path | None) -> Experiment:
    """An experiment with the cells of all its parts, every one once."""
    found: dict[tuple[Any, ...], tuple[str, Cell]] = {}
    for where, part in one.parts:
        with located(where, lambda: _cells(checked(under_all(study)), root)):
            for cell in _cells(part, root, lenient=bool(one.id)):
                known, other = found.setdefault(cell.place, (where, cell))
                if other.key != cell.key:
                    raise UserError(
                        f"{cell.words} would be two different cells, {other.key} of {known} and {cell.key} of "
                        f"{where}; give a row, the data or the heterogeneity of one of them another label"
                    )
    listed = [] if one.parts else _rows(one.about)
    return Experiment(one.id, folder / one.id, one.about, [cell for _, cell in found.values()], one.published, listed)


def _cells(text: Text, root: Path | None, lenient: bool = False) -> list[Cell]:
    """The cells of a study without experiments; where it is `lenient`, those of data that cannot be had say so."""
    store = Path(text["results"]) / "store"
    rows = _rows(text)
    model, about_model = _component("models", text["model"], "model")
    seeds = _seeds(text)
    heterogeneity = list(_heterogeneities(text["heterogeneity"]))
    wanted = text["data"] if isinstance(text["data"], list) else [text["data"]]
    datasets = [_dataset(entry, store, root) for entry in wanted]
    _check_labels("data", [data.label for data, _ in datasets])
    kinds, partition_seeds = [kind.component for kind in heterogeneity], [seed for _, seed, _ in seeds]
    product.check_attacks({row.label: row.training for row in rows}, datasets)
    for data, info in datasets:
        product.check_fit(data.label, info, kinds, model.name, about_model["facts"], partition_seeds)
    _check_validation(text.get("report", {}), rows, kinds, partition_seeds)
    at_hand = [_at_hand(data, root, text["download"], lenient) for data, _ in datasets]
    grid = product.grid(rows, at_hand, heterogeneity, model, seeds)
    return [replace(cell, artifacts=tuple(text.get("artifacts", ()))) for cell in grid]


def _rows(text: Text) -> list[MethodRow]:
    training = resolve(describe(Training), text["training"], "training")
    found = functools.cache(lambda reference: description("methods", reference))
    entries = _expanded(_labelled(text.get("methods", {})))
    return [_row(label, entry, training, found, text.get("report", {})) for label, entry in entries]


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


def _seeds(text: Mapping[str, Any]) -> list[product.Seeds]:
    if len(text["seeds"]) > 1 and "partition_seed" in text and "train_seed" in text:
        raise UserError("seeds: with both partition_seed and train_seed fixed, all seeds would be one and the same run")
    return [(seed, text.get("partition_seed", seed), text.get("train_seed", seed)) for seed in text["seeds"]]


def _labelled(methods: list[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    return methods if isinstance(methods, Mapping) else dict.fromkeys(methods)


def _expanded(methods: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Rows by label, one for each value of a list; such a row's label and title say what it takes."""
    rows = []
    for label, given in methods.items():
        given = {"method": label} | (given or {})
        for entry, taken in _each(given, f"methods.{label}"):
            said = "".join(f", {name} = {overlay.shown(value)}" for name, value in taken.items())
            if "title" in entry:
                entry["title"] = overlay.named(entry["title"], entry, f"methods.{label}.title")
            elif said:
                entry["title"] = label + said
            rows.append((label + said, entry))
    return rows


def _each(entry: Mapping[str, Any], where: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found = list(overlay.each(entry))
    if not found:
        raise UserError(f"{where}: a list of values must not be empty")
    return found


def _row(
    label: str, entry: Mapping[str, Any], common: Settings, described: Callable[[str], Description], report: Settings
) -> MethodRow:
    found = described(entry["method"])
    for name in {parameter["name"] for parameter in found["parameters"]}.intersection(RESERVED):
        raise UserError(f"methods.{label}: its setting '{name}' needs another name: this one means something else here")
    given = {key: value for key, value in entry.items() if key not in RESERVED}
    training = resolve(describe(Training), common | entry.get("training", {}), f"methods.{label}.training")
    plain = label == found["name"] or label.endswith(".py")
    title = entry.get("title", found["title"] if plain else label)
    component = _configured(found, given, f"methods.{label}")
    _check_plain_rates(label, component, found["facts"]["plain_rates"], training)
    score, at = (entry.get(name, report.get(name, default)) for name, default in READ_BY_DEFAULT.items())
    return MethodRow(label, title, component, training, found["facts"]["work"], score, at, common)


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


def _heterogeneities(entries: Sequence[Mapping[str, Any]]) -> list[Heterogeneity]:
    found = [
        _heterogeneity(entry, f"heterogeneity.{number}")
        for number, given in enumerate(entries)
        for entry, _ in _each(given, f"heterogeneity.{number}")
    ]
    if len({one.label for one in found}) < len(found):
        raise UserError("heterogeneity: the same partition, or the same label, stands there twice")
    _check_labels("heterogeneity", [one.label for one in found])
    return found


def _heterogeneity(given: Mapping[str, Any], where: str) -> Heterogeneity:
    """A kind of partition; its name in the store is made of the settings that always stand there, and unusual ones."""
    settings_given = {key: value for key, value in _published(given).items() if key != "label"}
    kind, about = _component("partition", settings_given, where, key="partition")
    named, settings = about["facts"]["named"], kind.settings
    unusual = [p["name"] for p in about["parameters"] if settings[p["name"]] != p["default"]]
    shown = [name for name in named if settings[name] is not None]
    shown += [name for name in unusual if name not in named and name != "path"]
    place = "-".join([kind.name, *(_in_slug(name, settings[name]) for name in shown)])
    if "label" in given:
        return Heterogeneity(kind, overlay.named(given["label"], given, f"{where}.label"), place, named=True)
    own = f"-{name_of(settings['path'])}" if kind.name == "file" else ""
    return Heterogeneity(kind, place + own, place, named=False)


def _in_slug(name: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{name}{value}"


def _published(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry of a partition, in which ``file:PATH`` is taken apart."""
    kind = entry["partition"]
    if not kind.startswith(PUBLISHED):
        return entry
    return {**entry, "partition": "file", "path": kind.removeprefix(PUBLISHED)}


def _dataset(given: str | Mapping[str, Any], store: Path, root: Path | None) -> tuple[PlannedDataset, DatasetInfo]:
    """A data set from its name, from a path, or from a mapping of either under ``name`` and of settings."""
    entry: dict[str, Any] = {"name": given} if isinstance(given, str) else dict(given)
    name: str = entry["name"]
    if name not in names("data") and ((place := path_of(name, "data")).exists() or os.sep in name):  # the user's own
        table = name.endswith(".parquet") or (place / "train.parquet").is_file()
        entry = {"label": Path(name).stem} | entry | {"name": "table" if table else "folder", "path": name}
    settings = {key: value for key, value in entry.items() if key not in DATA_RESERVED}
    label = entry.get("label", entry["name"])
    images, info = product.plan_dataset(store, label, _component("data", settings, "data")[0], root)
    wanted = entry.get("features")
    if not wanted:
        return images, info
    chosen = wanted if isinstance(wanted, Mapping) else {} if wanted is True else {"backbone": wanted}
    return product.plan_features(images, info, resolve(describe(Backbone), chosen, "data.features"))


def _check_labels(where: str, labels: list[str]) -> None:
    """Raises UserError for labels that are equal, or that a file's name could not tell apart."""
    for label in labels:
        others = [other for other in labels if slug(other) == slug(label)]
        if len(others) > 1:
            what = (
                f"'{label}' stands there twice"
                if others[0] == others[1]
                else f"'{others[0]}' and '{others[1]}' are too alike"
            )
            raise UserError(f"{where}: {what}; give one of them another label")


def _check_validation(
    report: Settings, rows: Sequence[MethodRow], kinds: Sequence[Configured], seeds: Sequence[int]
) -> None:
    asked = {f"report.{name}": str(value) for name, value in report.items()}
    asked |= {f"methods.{row.label}.{name}": getattr(row, name) for row in rows for name in READ_BY_DEFAULT}
    product.check_validation(asked, kinds, seeds)


def _at_hand(data: PlannedDataset, root: Path | None, download: bool, lenient: bool) -> PlannedDataset:
    """The data set, which says what is lacking where it cannot be had; not `lenient`, that is a UserError."""
    lacking = product.lacking(data, root, download)
    if lacking and not lenient:
        raise UserError(f"data: {lacking}")
    return replace(data, lacking=lacking)
