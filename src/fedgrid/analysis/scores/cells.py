"""The cells of an experiment, as results.parquet describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fedgrid.grid.plan.manifest_model import UNAVAILABLE, CellNames
from fedgrid.grid.study.codec import decode

WAITING = ("running", "queued", "missing")
"""Statuses of cells that may still get results, in this run or the next."""
ABSENT = ("failed", UNAVAILABLE, *WAITING)
"""Statuses of cells without results."""


@dataclass(frozen=True)
class Seconds:
    """Wall-clock time of a cell and its parts; None for a part that did not take place."""

    total: float
    train: float | None = None
    server: float | None = None
    evaluate: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    "Phases of a round that the method itself measures."


@dataclass(frozen=True)
class Costs:
    """Time and memory of a cell; device memory is an accelerator's own."""

    seconds: Seconds
    peak_memory_bytes: int = 0
    peak_device_memory_bytes: int = 0


@dataclass(frozen=True)
class Sizes:
    """Parameters of both parts of a model, its features and its classes."""

    extractor: int
    head: int
    features: int
    classes: int


@dataclass(frozen=True)
class Commit:
    """The commit of the code that computed a cell, and whether its tree was clean."""

    id: str
    clean: bool


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


def adoptions(metadata: Mapping[str, Any]) -> list[Adoption]:
    """How often, from where and on what evidence a cell's results were carried, the oldest first."""
    return [
        Adoption(
            code=entry["earlier"]["code"],
            checked=[pair["key"] for pair in entry["checked"]],
            of=entry["of"],
            fedgrid=entry["fedgrid"],
            date=entry["date"],
        )
        for entry in metadata.get("adopted") or metadata.get("continued", {}).get("adopted", [])
    ]


@dataclass(frozen=True, kw_only=True)
class Cell(CellNames):
    """A cell, with or without results."""

    status: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class FinishedCell(Cell):
    """A cell with results, even if it diverged; None for what cells of earlier releases do not say."""

    score: str
    "The point of a round at which its method's paper scores it."
    rounds: int
    costs: Costs
    versions: dict[str, str]
    hardware: dict[str, str | int]
    domains: list[str | None] | None = None
    "The domain of each client's images, if there is one."
    sizes: Sizes | None = None
    commit: Commit | None = None
    images: str | None = None
    "Checksum of the images that it was trained on."
    code: str = ""
    "Digest of all code that can change its numbers, as its key covers it."
    adopted: list[Adoption] = field(default_factory=list)
    "Where its results come from if the code that computed them is an earlier one, the oldest first; see `adoptions`."
    external: str = ""
    "Where its results come from if they are those of others: a file and its digest."
    same_partition: bool = True
    "Whether its seed stands for the same partition as that of the rows beside it."

    @property
    def fedgrid_version(self) -> str | None:
        """The version whose numbers these are: the one that computed them, or later found the same bits."""
        return self.adopted[-1].fedgrid if self.adopted else self.versions.get("fedgrid")


FROM_RESULTS = [
    entry.name for entry in fields(FinishedCell) if entry.name not in {name.name for name in fields(CellNames)}
]
"""What a cell's own results say of it."""


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
