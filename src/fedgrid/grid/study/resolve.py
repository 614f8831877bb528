"""Parses a study: from the values of its YAML to one typed study, every component with all its settings."""

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedgrid.components import SettingError, describe, resolve
from fedgrid.errors import UserError, nearest
from fedgrid.files import path_of, slug
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.experiments import Laid, choose, lay_experiments, notices
from fedgrid.grid.study.model import (
    About,
    Configured,
    DataEntry,
    Heterogeneity,
    MethodRow,
    ModelEntry,
    ParsedExperiment,
    ParsedStudy,
    Part,
    Placed,
    Reading,
    Settings,
    printed_names,
)
from fedgrid.grid.study.nodes import Node, Origin
from fedgrid.grid.study.overlay import by_label, each, fill_label, leaves, shown
from fedgrid.grid.study.validation import check_study
from fedgrid.loading import names
from fedgrid.partition.file import name_of
from fedgrid.settings import Backbone, Compute, Training

Description = Mapping[str, Any]
"What `fedgrid.grid.study.catalog.description` says of a component."
RESERVED = ("method", "title", "training", "score", "at")
"Keys of a method's entry that are not hyperparameters."
DATA_RESERVED = ("label", "features")
"Keys of a data set's entry that are not settings of the data set."
PUBLISHED = "file:"
"Before the path of a published partition."


def parse(study: Node) -> ParsedStudy:
    """A study with all its experiments, at the scale that it asks for; UserError, with its place, for any mistake.

    Writes nothing: a study may be looked at while a run is going, and where nothing can be written.
    """
    study = check_study(study)
    with study.origin_of("results").located():
        results = path_of(study.at("results"), "results")
    compute = Compute(**_settings_of(describe(Compute), study.get("compute") or Node({})))
    laid = lay_experiments(study)
    return ParsedStudy(
        name=study.at("name"),
        title=study.at("title") or "",
        results=results,
        compute=compute,
        experiments=[_experiment(one) for one in laid],
        scale=study.at("scale"),
        download=study.at("download"),
        data_root=_data_root(study),
        published=study.at("published") or "",
        assumed=study.at("assumed") or {},
        only=choose(study.get("only"), [one.id for one in laid]),
        notices=notices(laid, study.at("scale")),
    )


def _experiment(laid: Laid) -> ParsedExperiment:
    listed = [] if laid.parts else [row.value for row in _rows(laid.about)]
    parts = [_part(part) for part in laid.parts]
    _check_shown(laid.about.get("show"), [*listed, *(row.value for part in parts for row in part.rows)])
    return ParsedExperiment(laid.id, _about(laid.about), parts, laid.published, listed)


def _check_shown(show: Node | None, rows: Sequence[MethodRow]) -> None:
    """Raises UserError where a table is to compare with a row that the experiment does not have."""
    first = {row.label: row for row in reversed(rows)}
    known = printed_names((label, row.component.name, row.title, row.component.file) for label, row in first.items())
    for entry in show.items if show else ():
        delta = entry.get("delta")
        if delta and delta.plain not in known.values():
            problem = f"the experiment has no row '{delta.plain}'; {nearest(delta.plain, known.values())}"
            raise delta.origin.mistake(problem)


def _about(node: Node) -> About:
    show = node.at("show")
    return About(
        title=node.at("title") or "",
        source=node.at("source") or "",
        lacks=node.at("lacks") or "",
        claims=tuple(node.at("claims") or ()),
        show=None if show is None else tuple(show),
        assumed=node.at("assumed") or {},
        reading=Reading(**node.at("report") or {}),
        seeds=tuple(node.at("seeds")),
        partition_seed=node.at("partition_seed"),
        train_seed=node.at("train_seed"),
    )


def _part(node: Node) -> Part:
    rows = _rows(node)
    data = node.mapping["data"]
    entries = [_data(entry) for entry in (data.items if isinstance(data.value, list) else [data])]
    _check_labels([Placed(entry.value.label, entry.origin) for entry in entries])
    reading = node.get("report") or Node({}, node.origin.child("report"))
    return Part(
        origin=node.origin,
        rows=rows,
        data=entries,
        heterogeneity=_heterogeneities(node.mapping["heterogeneity"]),
        model=_model(node.mapping["model"]),
        seeds=_seeds(node),
        reading=Placed(Reading(**reading.plain), reading.origin),
        artifacts=tuple(node.at("artifacts") or ()),
    )


def _data_root(study: Node) -> Path | None:
    """Where data sets lie on this machine: the study's `data_root`, else the environment variable FEDGRID_DATA."""
    given = study.at("data_root")
    origin = study.origin_of("data_root") if given else Origin(key="FEDGRID_DATA")
    folder = given or os.environ.get("FEDGRID_DATA")
    if not folder:
        return None
    with origin.located():
        root = path_of(folder, origin.key)
    if not root.is_dir():
        raise origin.mistake(f"there is no folder {folder}")
    return root


def _seeds(study: Node) -> list[tuple[int, int, int]]:
    """Seed, seed of the partition and seed of training, of each seed."""
    seeds, partition_seed, train_seed = (study.at(name) for name in ("seeds", "partition_seed", "train_seed"))
    if len(seeds) > 1 and None not in (partition_seed, train_seed):
        problem = "with both partition_seed and train_seed fixed, all seeds would be one and the same run"
        raise study.origin_of("seeds").mistake(problem)
    return [
        (seed, seed if partition_seed is None else partition_seed, seed if train_seed is None else train_seed)
        for seed in seeds
    ]


def _settings_of(about: Description, given: Node, base: Settings | None = None) -> dict[str, Any]:
    """All settings of a component: the `given` ones over `base` and the defaults; UserError for a wrong one."""
    try:
        return resolve(about, {**(base or {}), **(given.plain or {})}, given.origin.key)
    except SettingError as error:
        raise _wrong_setting(given, error) from error


def _wrong_setting(given: Node, error: SettingError) -> UserError:
    """The error at the line of the setting; where that was laid over an entry, the sentence names the entry."""
    origin = given.origin_of(*error.path)
    if not error.unknown:
        return origin.mistake(error.problem)
    key, entry = origin.key.rpartition(".")[0], given.origin_of(*error.key)
    laid = f" (laid over {entry.label})" if key != entry.key and entry.place else ""
    return Origin(origin.file, origin.line, key).mistake(f"{error.problem}{laid}")


def _configured(about: Description, given: Node) -> Configured:
    """A component with the `given` settings over its defaults; UserError for a wrong one."""
    named = {name: about[name] for name in ("name", "title", "reference", "module", "file")}
    return Configured(**named, settings=_settings_of(about, given))


def _component(kind: str, entry: Node, key: str = "name") -> tuple[Configured, Description]:
    """A component from its name, or from a mapping that names it under `key`, beside its settings."""
    named = Node({key: entry}, entry.origin) if isinstance(entry.value, str) else entry
    reference = named.mapping[key]
    with reference.origin.located():
        about = description(kind, reference.plain)
    return _configured(about, named.without(key)), about


def _model(entry: Node) -> Placed[ModelEntry]:
    component, about = _component("models", entry)
    facts = about["facts"]
    return Placed(ModelEntry(component, facts["smallest"], tuple(facts.get("modalities", ()))), entry.origin)


# rows


def _rows(study: Node) -> list[Placed[MethodRow]]:
    training = _settings_of(describe(Training), study.mapping["training"])
    reading = Reading(**(study.at("report") or {}))
    about = functools.cache(functools.partial(description, "methods"))  # rows may be of the same method
    methods = study.get("methods")
    rows = []
    for label, entry in _expanded(methods) if methods else []:
        with entry.origin_of("method").located():
            method = about(entry.at("method"))
        rows.append(Placed(_row(label, entry, training, method, reading), entry.origin))
    return rows


def _expanded(methods: Node) -> list[tuple[str, Node]]:
    """Rows by label, one for each value of a list; such a row's label and title say what it takes."""
    rows = []
    for label, given in by_label(methods).items():
        row = Node({"method": Node(label, given.origin), **given.mapping}, given.origin)
        for entry, taken in _each(row):
            values = "".join(f", {name} = {shown(value)}" for name, value in taken.items())
            title = entry.get("title")
            if title:
                entry = entry.updated({"title": Node(fill_label(title, entry), title.origin)})
            elif values:
                entry = entry.updated({"title": Node(label + values, given.origin)})
            rows.append((label + values, entry))
    return rows


def _each(entry: Node) -> list[tuple[Node, dict[str, Any]]]:
    for _, value in leaves(entry):
        if value.value == []:
            raise value.origin.mistake("a list of values must not be empty")
    return list(each(entry))


def _row(label: str, entry: Node, common: Settings, about: Description, reading: Reading) -> MethodRow:
    for name in {parameter["name"] for parameter in about["parameters"]}.intersection(RESERVED):
        raise entry.origin.mistake(f"setting '{name}' clashes with a built-in key; rename it")
    training = _settings_of(describe(Training), entry.get("training") or Node({}, entry.origin), common)
    plain = label == about["name"] or label.endswith(".py")
    title = entry.at("title") or (about["title"] if plain else label)
    component = _configured(about, entry.without(*RESERVED))
    _check_plain_rates(entry.origin, component, about["facts"]["plain_rates"], training)
    score, at = entry.at("score") or reading.score, entry.at("at") or reading.at
    return MethodRow(label, title, component, training, about["facts"]["work"], score, at, common)


def _check_plain_rates(origin: Origin, component: Configured, rates: Sequence[str], training: Settings) -> None:
    """Raises UserError where steps of plain SGD would take a rate that is meant for Adam or for momentum."""
    if training["optimizer"] == "sgd" and not training["momentum"]:
        return
    meant = "Adam" if training["optimizer"] == "adam" else f"a momentum of {training['momentum']:g}"
    for name in rates:
        if component.settings[name] is None:
            rate = f"the study's rate of {training['lr']:g}, which is meant for {meant}"
            raise origin.mistake(f"takes plain SGD steps, for which {rate}, is not usable; set {name}")


# heterogeneity


def _heterogeneities(entries: Node) -> list[Placed[Heterogeneity]]:
    single = [entry for given in entries.items for entry, _ in _each(given)]
    kinds = [Placed(_heterogeneity(entry), entry.origin) for entry in single]
    origins = [(entry.get("label") or entry).origin for entry in single]
    _check_labels([Placed(kind.value.label, origin) for kind, origin in zip(kinds, origins, strict=True)])
    return kinds


def _heterogeneity(entry: Node) -> Heterogeneity:
    """A kind of partition; its name in the store is made of the settings that always stand there, and unusual ones."""
    kind, about = _component("partition", _published(entry).without("label"), key="partition")
    named, settings = about["facts"]["named"], kind.settings
    unusual = [p["name"] for p in about["parameters"] if settings[p["name"]] != p["default"]]
    in_name = [name for name in named if settings[name] is not None]
    in_name += [name for name in unusual if name not in named and name != "path"]
    place = "-".join([kind.name, *(_in_slug(name, settings[name]) for name in in_name)])
    label = entry.get("label")
    if label:
        return Heterogeneity(kind, fill_label(label, entry), place, named=True)
    file = f"-{name_of(settings['path'])}" if kind.name == "file" else ""
    return Heterogeneity(kind, place + file, place, named=False)


def _in_slug(name: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{name}{value}"


def _published(entry: Node) -> Node:
    """The entry of a partition, in which ``file:PATH`` is taken apart."""
    kind = entry.mapping["partition"]
    if not kind.plain.startswith(PUBLISHED):
        return entry
    path = kind.plain.removeprefix(PUBLISHED)
    return entry.updated({"partition": Node("file", kind.origin), "path": Node(path, kind.origin)})


# data


def _data(given: Node) -> Placed[DataEntry]:
    """A data set from its name, from a path, or from a mapping of either under ``name`` and of settings."""
    entry = Node({"name": given}, given.origin) if isinstance(given.value, str) else given
    name = entry.mapping["name"]
    label = entry.at("label") or name.plain
    if path := _users_own(name):
        label = entry.at("label") or Path(name.plain).stem
        table = name.plain.endswith(".parquet") or (path / "train.parquet").is_file()
        kind = Node("table" if table else "folder", name.origin)
        entry = entry.updated({"name": kind, "path": name})
    component, _ = _component("data", entry.without(*DATA_RESERVED))
    return Placed(DataEntry(label, component, _backbone(entry.get("features"))), given.origin)


def _users_own(name: Node) -> Path | None:
    """The path of a data set of the user's own; None for the name of one of the package's."""
    if name.plain in names("data"):
        return None
    with name.origin.located():
        path = path_of(name.plain, "data")
    return path if path.exists() or os.sep in name.plain else None


def _backbone(features: Node | None) -> Settings | None:
    if features is None or not features.value:
        return None
    if isinstance(features.value, dict):
        chosen = features
    else:
        chosen = Node({} if features.value is True else {"backbone": features}, features.origin)
    return _settings_of(describe(Backbone), chosen)


def _check_labels(labels: Sequence[Placed[str]]) -> None:
    """Raises UserError for labels that are equal, or that a file's name could not tell apart."""
    first: dict[str, Placed[str]] = {}
    for label in labels:
        other = first.setdefault(slug(label.value), label)
        if other is not label:
            both = f"'{other.value}' and '{label.value}' are too alike"
            what = f"duplicate label '{label.value}'" if other.value == label.value else both
            raise label.origin.mistake(f"{what}; give one of them another label")
