"""CSV and Excel: the tables, and every number in tidy files or sheets.

A workbook has a sheet for each table, with its caption and footnotes, and one for its numbers.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from fedgrid.analysis.pages.table_set import csv, tables
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.tables.common.grid import Entry, Grid
from fedgrid.api.libraries import import_optional
from fedgrid.api.results import StudyResults
from fedgrid.files import replacing, write_text

MOST_ROWS = 2**20
"Of a sheet."
LONGEST_TEXT = 32_767
"Letters of a cell of a sheet."
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"What no sheet can hold."
LEFT_OUT = "left out: more rows than a sheet can have; see --to csv"


def tidy_frames(results: Results) -> dict[str, pd.DataFrame]:
    """Frames by name: cells, scores, curves and, last and largest, values."""
    study = StudyResults(results)
    return {"cells": study.cells, "scores": study.scores, "curves": study.curves, "values": study.values}


def write_csv(results: Results, folder: Path) -> list[Path]:
    """Writes a file for each table and each tidy frame; returns them."""
    frames = {name: numbers for name, (numbers, _) in tables(results)} | tidy_frames(results)
    for name, frame in frames.items():
        write_text(folder / f"{name}.csv", csv(frame))
    return [folder / f"{name}.csv" for name in frames]


def write_xlsx(results: Results, folder: Path) -> list[Path]:
    """Writes ``results.xlsx``; returns it."""
    workbook, file = Workbook(results.study.title), folder / "results.xlsx"
    for name, (numbers, grid) in tables(results):
        workbook.add(name, _printed(grid))
        workbook.add(f"{name} numbers", _rows(numbers))
    for name, frame in tidy_frames(results).items():
        workbook.add(name, _rows(frame) if len(frame) < MOST_ROWS else [[LEFT_OUT]])
    workbook.save(file)
    return [file]


def _printed(grid: Grid) -> Iterator[list[Any]]:
    """The rows of a sheet: caption, header, body, footnotes."""
    yield [grid.caption]
    yield []
    for level in grid.header:
        stub = grid.stub if level is grid.header[-1] else ""
        yield [stub, *(text for head, span in level for text in [head, *[""] * (span - 1)])]
    for name, entries in grid.rows:
        yield [name, *entries]
    yield []
    for letter, note in grid.lettered_notes:
        yield [f"{letter} {note}"]


def _rows(frame: pd.DataFrame) -> Iterator[list[Any]]:
    """Names of columns, then rows; what is not there is an empty cell."""
    yield list(frame.columns)
    columns = [[None if pd.isna(value) else value for value in frame[name].tolist()] for name in frame]
    yield from map(list, zip(*columns, strict=True))


class Workbook:
    """A workbook that is written row by row."""

    def __init__(self, title: str):
        self.library = import_optional("openpyxl", "xlsx", "--to xlsx")
        self.cells = import_optional("openpyxl.cell", "xlsx", "--to xlsx")
        self.bold = import_optional("openpyxl.styles", "xlsx", "--to xlsx").Font(bold=True)
        self.workbook = self.library.Workbook(write_only=True)
        self.workbook.properties.title = _text(title)

    def add(self, name: str, rows: Iterable[Iterable[Any]]) -> None:
        """Adds a sheet."""
        self.sheet = self.workbook.create_sheet(name[:31])
        for row in rows:
            self.sheet.append([self._cell(value) for value in row])

    def _cell(self, value: Any) -> Any:
        """A cell of a sheet; a text that looks like a formula stays a text."""
        if value is None or isinstance(value, bool | int | float):
            return value
        entry = value if isinstance(value, Entry) else Entry(str(value))
        cell = self.cells.WriteOnlyCell(self.sheet, _text(entry.text + entry.raised))
        cell.data_type = "s"
        if entry.bold:
            cell.font = self.bold
        return cell

    def save(self, file: Path) -> None:
        """Writes the workbook in one step."""
        with replacing(file) as temporary:
            self.workbook.save(temporary)


def _text(text: str) -> str:
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)[:LONGEST_TEXT]
