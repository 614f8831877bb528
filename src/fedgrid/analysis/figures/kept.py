"""What is kept of cells beside their results (`artifacts:`), read when something is drawn of it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedgrid.analysis.figures.style import Undrawn
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.results import ABSENT, Results
from fedgrid.files import read_table

Kept = list[tuple[dict[str, Any], pa.Table]]
"""Cells, each with a table that is kept of it."""


def of_first_seed(results: Results, data: str, kind: str) -> tuple[Kept, list[str]]:
    """The cells of `data` and the study's first seed that came to their end, each with its table of a `kind`.

    And sentences that name the other cells. Raises `UserError` when the study has no such data set, and `Undrawn` where
    no cell has such a table.
    """
    results.heterogeneities(data)
    seed = results.study["seeds"][0]
    parts: dict[str, list[dict[str, Any]]] = {}
    for cell in results.cells:
        if cell["data"] == data and cell["seed"] == seed:
            parts.setdefault(lacks(cell, kind), []).append(cell)
    there = [(cell, read_table(place(cell, kind))[0]) for cell in parts.pop("", [])]
    if not any(len(table) for _, table in there):
        raise Undrawn(f"Nothing is drawn, because no cell of seed {seed} has kept its {kind} (artifacts: [{kind}]).")
    return there, [f"{what}, so not drawn: {names(results, cells)}." for what, cells in parts.items()]


def lacks(cell: Mapping[str, Any], kind: str) -> str:
    """Why there is no table of a `kind` to be drawn of a cell; empty where there is one."""
    if cell["status"] != "ok":
        return "Without results" if cell["status"] in ABSENT else "Diverged"
    return "" if place(cell, kind).is_file() else f"Without kept {kind}"


def place(cell: Mapping[str, Any], kind: str) -> Path:
    """Where the table of a `kind` lies that is kept of a cell; no file where the study keeps none."""
    return Path((cell.get("kept") or {}).get(kind, ""))


def names(results: Results, cells: Iterable[dict[str, Any]]) -> str:
    """Cells of one data set and seed, by row and heterogeneity."""
    return listing(f"{results.names[cell['label']]} ({results.words(cell['heterogeneity'])})" for cell in cells)
