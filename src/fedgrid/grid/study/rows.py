"""The rows of a study: its methods, one for each value of a list."""

import functools
from collections.abc import Sequence

from fedgrid.components import describe
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.configure import Description, configured, settings_of, single_entries
from fedgrid.grid.study.model import Configured, MethodRow, Placed, Reading, Settings
from fedgrid.grid.study.nodes import Node, Origin
from fedgrid.grid.study.overlay import by_label, fill_label, shown
from fedgrid.settings import Training

RESERVED = ("method", "title", "training", "score", "at")
"Keys of a method's entry that are not hyperparameters."


def method_rows(study: Node) -> list[Placed[MethodRow]]:
    """The rows of a whole study, with the training settings that each is run with."""
    training = settings_of(describe(Training), study.mapping["training"])
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
        for entry, taken in single_entries(row):
            values = "".join(f", {name} = {shown(value)}" for name, value in taken.items())
            title = entry.get("title")
            if title:
                entry = entry.updated({"title": Node(fill_label(title, entry), title.origin)})
            elif values:
                entry = entry.updated({"title": Node(label + values, given.origin)})
            rows.append((label + values, entry))
    return rows


def _row(label: str, entry: Node, common: Settings, about: Description, reading: Reading) -> MethodRow:
    for name in {parameter["name"] for parameter in about["parameters"]}.intersection(RESERVED):
        raise entry.origin.mistake(f"setting '{name}' clashes with a built-in key; rename it")
    training = settings_of(describe(Training), entry.get("training") or Node({}, entry.origin), common)
    plain = label == about["name"] or label.endswith(".py")
    title = entry.at("title") or (about["title"] if plain else label)
    component = configured(about, entry.without(*RESERVED))
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
