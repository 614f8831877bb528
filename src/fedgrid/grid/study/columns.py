"""The columns of a study: its data sets and its kinds of heterogeneity, one for each value of a list."""

import os
import re
from pathlib import Path
from typing import Any

from fedgrid.components import describe
from fedgrid.files import path_of, slug
from fedgrid.grid.study.configure import SOURCE, check_labels, configured_component, named_entries, settings_of
from fedgrid.grid.study.expansion import expand, fill_label
from fedgrid.grid.study.model import DataEntry, Heterogeneity, Placed, Settings
from fedgrid.grid.study.sections import Section, located
from fedgrid.loading import names
from fedgrid.partition.file import name_of
from fedgrid.settings import Backbone

DATA_RESERVED = ("label", "features")
"Keys of a data set's entry that are not settings of the data set."
OF_ANY = "huggingface"
"The data set that is whatever its settings `hub` or `path` name, and is called so where it has no label."
HUB = "hub"
"In place of the path of a network's weights, for those that its authors published."
PUBLISHED = "file:"
"Before the path of a published partition."
IMPORT = "import"
"The key of the path of another program's partition, in place of the name of a kind."


def data_entries(study: Section) -> list[Placed[DataEntry]]:
    """The data sets of a study; StudyError for two labels that could not be told apart."""
    entries = [_data_entry(entry) for entry in named_entries(study["data"], study.origins["data"])]
    check_labels([Placed(entry.value.label, entry.origin) for entry in entries])
    return entries


def _data_entry(entry: Section) -> Placed[DataEntry]:
    """A data set from a mapping of settings, whose ``name`` may be the path of its code, or of the user's files."""
    name, origin = entry["name"], entry.origins["name"]
    place = (entry.get("hub") or entry.get("path")) if name == OF_ANY else None
    label = entry.get("label") or (Path(place).name if isinstance(place, str) and place else name)
    if name.endswith(SOURCE):
        label = entry.get("label") or Path(name).stem
    elif name not in names("data"):
        with located(origin):
            path = path_of(origin.input_path(name), "data")
        if path.exists() or os.sep in name:
            label = entry.get("label") or path.stem
            kind = "table" if name.endswith(".parquet") or (path / "train.parquet").is_file() else "folder"
            parts = {"name": kind, "path": name}
            entry = entry | Section(parts, origin, dict.fromkeys(parts, origin))
    component, _ = configured_component("data", entry.with_input_path("path") - DATA_RESERVED)
    return Placed(DataEntry(label, component, _backbone(entry)), entry.origin)


def _backbone(entry: Section) -> Settings | None:
    """The settings of the network whose features an entry asks for: a mapping, the network's name, or true."""
    features = entry.get("features")
    if not features:
        return None
    if not isinstance(features, Section):
        origin = entry.origins["features"]
        features = Section({} if features is True else {"backbone": features}, origin, {"backbone": origin})
    if features.get("weights") != HUB:
        features = features.with_input_path("weights")
    return settings_of(describe(Backbone), features)


def heterogeneities(study: Section) -> list[Placed[Heterogeneity]]:
    """The kinds of heterogeneity of a study; StudyError for two that could not be told apart."""
    entries = [single for entry in study["heterogeneity"] for single, _ in expand(entry)]
    kinds = [Placed(_heterogeneity(entry), entry.origin) for entry in entries]
    origins = [entry.origins.get("label", entry.origin) for entry in entries]
    check_labels([Placed(kind.value.label, origin) for kind, origin in zip(kinds, origins, strict=True)])
    return kinds


def _heterogeneity(entry: Section) -> Heterogeneity:
    """A kind of partition; its name in the store is made of the settings that always stand there, and unusual ones."""
    entry = _published(entry).with_input_path("path")
    kind, about = configured_component("partition", entry - {"label"}, key="partition")
    named, settings = about["facts"]["named"], kind.settings
    unusual = [p["name"] for p in about["parameters"] if settings[p["name"]] != p["default"]]
    in_name = [name for name in named if settings[name] is not None]
    in_name += [name for name in unusual if name not in named and name != "path"]
    folder = "-".join([kind.name, *(_in_slug(name, settings[name]) for name in in_name)])
    if "label" in entry:
        return Heterogeneity(kind, fill_label(entry["label"], entry, entry.origins["label"]), folder, named=True)
    file = f"-{name_of(settings['path'])}" if about["facts"]["from_file"] else ""
    return Heterogeneity(kind, folder + file, folder, named=False)


def _in_slug(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else f"{name}{value}"
    return text if re.fullmatch(r"[\w.=+-]+", text) else slug(text)


def _published(entry: Section) -> Section:
    """The entry of a partition, in which ``file:PATH`` and ``{import: PATH}`` are taken apart."""
    kind, origin = entry["partition"], entry.origins["partition"]
    if isinstance(kind, Section):
        parts = {"partition": "imported", "path": kind[IMPORT]}
        return entry | Section(parts, origin, {"partition": origin, "path": kind.origins[IMPORT]})
    if not kind.startswith(PUBLISHED):
        return entry
    parts = {"partition": "file", "path": kind.removeprefix(PUBLISHED)}
    return entry | Section(parts, origin, dict.fromkeys(parts, origin))
