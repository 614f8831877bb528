"""What is kept of cells beside their results (`artifacts:`), read when something is drawn of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedgrid.analysis.results import Results
from fedgrid.analysis.style import Undrawn
from fedgrid.analysis.words import listing
from fedgrid.files import read_table

Kept = list[tuple[dict[str, Any], pa.Table]]
"""Cells, each with a table that is kept of it."""


def of_first_seed(results: Results, data: str, kind: str) -> tuple[Kept, list[str]]:
    """The finished cells of `data` and the study's first seed, each with its table of a `kind`; and sentences.

    The sentences name cells that finished without one. Raises `Undrawn` where no cell has one.
    """
    results.heterogeneities(data)
    seed = results.study["seeds"][0]
    cells = [cell for cell in results.finished if cell["data"] == data and cell["seed"] == seed]
    found = [(cell, Path((cell.get("kept") or {}).get(kind, ""))) for cell in cells]
    there = [(cell, read_table(file)[0]) for cell, file in found if file.is_file()]
    if not any(len(table) for _, table in there):
        raise Undrawn(f"Nothing is drawn, because no cell of seed {seed} has kept its {kind} (artifacts: [{kind}]).")
    lost = [cell for cell, file in found if not file.is_file()]
    return there, [f"Not drawn, because no {kind} are kept: {names(results, lost)}."] if lost else []


def names(results: Results, cells: Iterable[dict[str, Any]]) -> str:
    """Cells of one data set and seed, by row and heterogeneity."""
    return listing(f"{results.names[cell['label']]} ({results.words(cell['heterogeneity'])})" for cell in cells)
