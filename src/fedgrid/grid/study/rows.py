"""The rows of a study: its methods, one for each value of a list."""

import functools
from collections.abc import Sequence

from fedgrid.components import describe
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.configure import Description, configured, settings_of
from fedgrid.grid.study.expansion import expand, fill_label, shown
from fedgrid.grid.study.model import Configured, MethodRow, Placed, Reading, Settings
from fedgrid.grid.study.overlay import by_label, named_row
from fedgrid.grid.study.paths import input_path
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError, located
from fedgrid.settings import Training

RESERVED = ("method", "title", "training", "score", "at")
"Keys of a method's entry that are not hyperparameters."


def method_rows(study: Section) -> list[Placed[MethodRow]]:
    """The rows of a study, with the training settings that each is run with."""
    training = settings_of(describe(Training), study["training"])
    reading = Reading(**study.get("report", {}))
    described = functools.cache(functools.partial(description, "methods"))  # rows may be of the same method
    rows = []
    for label, entry in _expanded(study["methods"]) if "methods" in study else []:
        with located(entry.origins["method"]):
            method = described(_reference(entry["method"], entry.origins["method"]))
        rows.append(Placed(_row(label, entry, training, method, reading), entry.origin))
    return rows


def _expanded(methods: Section | Entries) -> list[tuple[str, Section]]:
    """Rows by label, one for each value of a list; such a row's label and title say what it takes."""
    rows = by_label(methods)
    expanded = []
    for label, settings in rows.items():
        for entry, taken in expand(named_row(label, settings, rows.origins[label])):
            values = "".join(f", {name} = {shown(value)}" for name, value in taken.items())
            if "title" in entry:
                entry = entry | {"title": fill_label(entry["title"], entry, entry.origins["title"])}
            elif values:
                entry = entry | {"title": label + values}
            expanded.append((label + values, entry))
    return expanded


def _reference(method: str, origin: Origin) -> str:
    return input_path(method, origin) if method.endswith(".py") else method


def _row(label: str, entry: Section, common: Settings, about: Description, reading: Reading) -> MethodRow:
    for name in {parameter["name"] for parameter in about["parameters"]}.intersection(RESERVED):
        raise StudyError(entry.origin, f"setting '{name}' clashes with a built-in key; rename it")
    training = settings_of(describe(Training), entry.get("training", Section((), entry.origin)), common)
    plain = label == about["name"] or label.endswith(".py")
    title = entry.get("title") or (about["title"] if plain else label)
    component = configured(about, entry - RESERVED)
    _check_plain_rates(entry.origin, component, about["facts"]["plain_rates"], training)
    score, at = entry.get("score", reading.score), entry.get("at", reading.at)
    return MethodRow(label, title, component, training, about["facts"]["work"], score, at, common)


def _check_plain_rates(origin: Origin, component: Configured, rates: Sequence[str], training: Settings) -> None:
    """Raises StudyError where steps of plain SGD would take a rate that is meant for Adam or for momentum."""
    if training["optimizer"] == "sgd" and not training["momentum"]:
        return
    configured = "Adam" if training["optimizer"] == "adam" else f"a momentum of {training['momentum']:g}"
    for name in rates:
        if component.settings[name] is None:
            rate = f"the study's rate of {training['lr']:g}, which is meant for {configured}"
            raise StudyError(origin, f"takes plain SGD steps, for which {rate}, is not usable; set {name}")
