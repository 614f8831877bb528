"""The columns of a study: its data sets and its kinds of heterogeneity, one for each value of a list."""

import os
from pathlib import Path
from typing import Any

from fedgrid.components import describe
from fedgrid.files import path_of
from fedgrid.grid.study.configure import check_labels, configured_component, settings_of, single_entries
from fedgrid.grid.study.model import DataEntry, Heterogeneity, Placed, Settings
from fedgrid.grid.study.nodes import Node
from fedgrid.grid.study.overlay import fill_label
from fedgrid.loading import names
from fedgrid.partition.file import name_of
from fedgrid.settings import Backbone

DATA_RESERVED = ("label", "features")
"Keys of a data set's entry that are not settings of the data set."
PUBLISHED = "file:"
"Before the path of a published partition."


def data_entries(study: Node) -> list[Placed[DataEntry]]:
    """The data sets of a whole study; UserError for two labels that could not be told apart."""
    data = study.mapping["data"]
    entries = [_data_entry(entry) for entry in (data.items if isinstance(data.value, list) else [data])]
    check_labels([Placed(entry.value.label, entry.origin) for entry in entries])
    return entries


def _data_entry(given: Node) -> Placed[DataEntry]:
    """A data set from its name, from a path, or from a mapping of either under ``name`` and of settings."""
    entry = Node({"name": given}, given.origin) if isinstance(given.value, str) else given
    name = entry.mapping["name"]
    label = entry.at("label") or name.plain
    if path := _users_own(name):
        label = entry.at("label") or Path(name.plain).stem
        table = name.plain.endswith(".parquet") or (path / "train.parquet").is_file()
        kind = Node("table" if table else "folder", name.origin)
        entry = entry.updated({"name": kind, "path": name})
    component, _ = configured_component("data", entry.without(*DATA_RESERVED))
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
    return settings_of(describe(Backbone), chosen)


def heterogeneities(study: Node) -> list[Placed[Heterogeneity]]:
    """The kinds of heterogeneity of a whole study; UserError for two that could not be told apart."""
    single = [entry for given in study.mapping["heterogeneity"].items for entry, _ in single_entries(given)]
    kinds = [Placed(_heterogeneity(entry), entry.origin) for entry in single]
    origins = [(entry.get("label") or entry).origin for entry in single]
    check_labels([Placed(kind.value.label, origin) for kind, origin in zip(kinds, origins, strict=True)])
    return kinds


def _heterogeneity(entry: Node) -> Heterogeneity:
    """A kind of partition; its name in the store is made of the settings that always stand there, and unusual ones."""
    kind, about = configured_component("partition", _published(entry).without("label"), key="partition")
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
