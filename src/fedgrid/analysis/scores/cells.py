"""The cells of an experiment, as results.parquet describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fedgrid.errors import Damaged
from fedgrid.grid.plan.cell_metadata import CellMetadata, CellResults, cell_metadata
from fedgrid.grid.plan.cell_origin import read_origin
from fedgrid.grid.plan.manifest_model import UNAVAILABLE, Cell
from fedgrid.grid.study.codec import decode

WAITING = ("running", "queued", "missing")
"""Statuses of cells that may still get results, in this run or the next."""
ABSENT = ("failed", UNAVAILABLE, *WAITING)
"""Statuses of cells without results."""


@dataclass(frozen=True)
class Adoption:
    """One time that an earlier version carried a cell's results from earlier code to a later one."""

    code: str
    "Digest of the earlier code."
    checked: list[str]
    "Keys of the cells of its group that were trained again and compared."
    of: int
    "Number of cells in its group."
    fedgrid: str
    "The version that carried it."
    date: str
    "When: ISO 8601, UTC."


def checked_on(checked: int, of: int) -> str:
    """How many of some cells were trained again and compared, in words."""
    return f"checked on {checked:,} of {of:,} cells"


def adoptions(metadata: CellMetadata) -> list[Adoption]:
    """How often, from where and on what evidence a cell's results were carried, the oldest first."""
    return [
        Adoption(
            code=entry["earlier"]["code"],
            checked=[pair["key"] for pair in entry["checked"]],
            of=entry["of"],
            fedgrid=entry["fedgrid"],
            date=entry["date"],
        )
        for entry in metadata.adopted or (metadata.continued.adopted if metadata.continued else [])
    ]


@dataclass(frozen=True, kw_only=True)
class FinishedCell(CellResults, Cell):
    """A cell with results, even if it diverged."""

    adopted: list[Adoption] = field(default_factory=list)
    "Where its results come from if the code that computed them is an earlier one, the oldest first; see `adoptions`."
    external: str = ""
    "Where its results come from if they are those of others: a file and its digest."
    source: str = ""
    "The archive or the store that it was merged from; empty where this store computed it."
    same_partition: bool = True
    "Whether its seed stands for the same partition as that of the rows beside it."

    @property
    def fedgrid_version(self) -> str | None:
        """The version whose numbers these are: the one that computed them, or later found the same bits."""
        return self.adopted[-1].fedgrid if self.adopted else self.versions.get("fedgrid")


def with_results(cell: Cell) -> Cell:
    """A cell of a manifest with the results in its file, if it is to have any; `Damaged` where they are of another."""
    if cell.status:
        return cell
    metadata = cell_metadata(cell.path)
    if metadata.key != cell.key:
        raise Damaged(cell.path, f"it holds the cell {metadata.key}, but the manifest expects {cell.key}")
    results = {entry.name: getattr(metadata, entry.name) for entry in fields(CellResults)}
    origin = read_origin(cell.path)
    return FinishedCell(**vars(cell) | results, adopted=adoptions(metadata), source=origin.source if origin else "")


def from_header(values: Mapping[str, Any], path: str) -> Cell:
    """The cell of these plain values; ValueError, which begins with `path`, where they describe none."""
    return decode(Cell if values.get("status") in ABSENT else FinishedCell, values, path)


def absence(cell: Cell, kind: str) -> str:
    """Why a cell has no artifact of a `kind` to show; empty where it has one."""
    if not isinstance(cell, FinishedCell):
        return "Without results"
    if cell.status != "ok":
        return "Diverged"
    file = cell.kept.get(kind)
    return "" if file and file.is_file() else f"Without kept {kind}"
