"""Hyperparameters and protocol as a table; it needs no cells."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from fedgrid.analysis.layout import DASH, Entry, Grid
from fedgrid.analysis.results import Results

PROTOCOL = "Protocol"
ROWS_OWN = ("score", "at")
"""What a row may set for itself beside its settings."""


def settings(results: Results, options: Mapping[str, Any]) -> tuple[pd.DataFrame, Grid]:
    """One row a setting: whose it is (protocol or the row's name), where it holds, its name and its value."""
    table = pd.DataFrame(found(results), columns=["of", "where", "setting", "value"])
    somewhere = bool(table["where"].any())
    header = [[*([("Where", 1)] * somewhere), ("Setting", 1), ("Value", 1)]]
    rows = [
        (of, [*([Entry(where or "everywhere")] * somewhere), Entry(setting), Entry(value)])
        for of, where, setting, value in table.itertuples(index=False)
    ]
    caption = f"{results.study['title']}: protocol, and hyperparameters of every row."
    return table, Grid(caption, "Of", header, rows, words=True)


def found(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """The rows of the table."""
    study = results.study
    described = study.get("described", {})
    for title in study["data"].values():
        yield PROTOCOL, "", "data", title
    for label, words in study["heterogeneity"].items():
        yield PROTOCOL, "", "heterogeneity", described.get(label) or words
    yield PROTOCOL, "", "seeds", text(study["seeds"])
    if study["model"]:
        yield PROTOCOL, "", "model", study["model"]
    for name, value in flat(study["protocol"]):
        yield PROTOCOL, "", name, text(value)
    for other in study.get("elsewhere", []):
        model = [("model", other["model"])] if other.get("model", study["model"]) != study["model"] else []
        for name, value in [*model, *flat(other["protocol"])]:
            yield PROTOCOL, places(results, other["columns"]), name, text(value)
    for label, row in study["methods"].items():
        own = {name: row[name] for name in ROWS_OWN if row.get(name, study[name]) not in (None, study[name])}
        for name, value in flat(row["settings"] | own):
            yield results.names[label], "", name, text(value)
        for other in row.get("elsewhere", []):
            for name, value in flat(other["settings"]):
                yield results.names[label], places(results, other["columns"]), name, text(value)


def flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Settings with their names, those of a mapping behind a dot."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", part) for inner, part in flat(value))
        else:
            yield name, value


def text(value: Any) -> str:
    """A value as a reader would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(text, value))
    return DASH if value is None else str(value)


def places(results: Results, columns: Iterable[tuple[str, str]]) -> str:
    """The names of columns."""
    return "; ".join(f"{results.title(data)}, {results.words(heterogeneity)}" for data, heterogeneity in columns)
