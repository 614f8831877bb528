"""Lists of cells for other people to compute: what `fedgrid plan --missing` prints, and `--cells` reads."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrid.api.planning import Outlook
from fedgrid.errors import UserError
from fedgrid.files import check_regular
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.model import FULL

LINE = re.compile(r"([0-9a-f]{16})(?:\s+(?:[\d.]+|\?)\s+(\S.*))?")
"A cell: its key, which is all that is needed, and perhaps its estimated seconds and what it is."
FIRST_LINE = "# cells for others to compute: fedgrid go"
"With this a list begins."
UNKNOWN = "?"
"Stands for a time that nothing tells."


@dataclass(frozen=True)
class MissingCell:
    """A cell without results."""

    what: str
    key: str
    seconds: float | None
    "On one core, or on a GPU, of this machine, as estimated; None where nothing tells."


def missing_cells(planned: Outlook) -> list[MissingCell]:
    """The cells without results, also those whose data this machine lacks, in the order of their study.

    Cells whose settings a search has yet to choose are not among them.
    """
    waiting = [prospect for prospect in planned.prospects.values() if not (prospect.done or prospect.cell.pending)]
    return [
        MissingCell(p.cell.description, p.cell.key, None if p.unknown or p.unavailable else p.seconds) for p in waiting
    ]


def in_parts(cells: Sequence[MissingCell], number: int) -> list[list[MissingCell]]:
    """The cells in so many lists that take about the same time; cells of unknown time count as the mean of others."""
    known = [cell.seconds for cell in cells if cell.seconds is not None]
    mean = sum(known) / len(known) if known else 1.0
    times = {cell.key: mean if cell.seconds is None else cell.seconds for cell in cells}
    totals, part_of = [0.0] * number, dict[str, int]()
    for cell in sorted(cells, key=lambda cell: -times[cell.key]):  # the longest first, each to who has least
        part_of[cell.key] = min(range(number), key=lambda part: (totals[part], part))
        totals[part_of[cell.key]] += times[cell.key]
    return [[cell for cell in cells if part_of[cell.key] == part] for part in range(number)]


def list_text(cells: Iterable[MissingCell], configfile: Path, study: Study) -> str:
    """A list of cells as a text; its first line says what to do with it."""
    scale = [] if study.scale == FULL else ["--scale", study.scale]
    lines = [f"{FIRST_LINE} {shlex.join([str(configfile), *scale])} --cells THIS_FILE"]
    for cell in cells:
        seconds = UNKNOWN if cell.seconds is None else f"{cell.seconds:.1f}"
        lines.append(f"{cell.key}  {seconds:>8}  {cell.what}")
    return "".join(f"{line}\n" for line in lines)


def is_list(file: Path) -> bool:
    """Whether a file is a list of cells that `list_text` made."""
    with open(file, encoding="utf-8", errors="replace") as text:
        return text.readline().startswith(FIRST_LINE)


def listed_cells(file: Path, study: Study) -> list[Cell]:
    """The cells of a study that a list names, each once.

    Raises UserError where the file is no list, names no cell, or names one that the study does not have here.
    """
    named = _read(file)
    if unknown := [what for key, what in named.items() if key not in study.known]:
        number = f"{len(unknown):,} of {len(named):,} listed cells"
        why = "the study, its own code or data, --scale or fedgrid are not those with which the list was made"
        raise UserError(f"{file}: {study.name} does not have {number}, such as '{unknown[0]}': {why}")
    return [study.known[key] for key in named]


def _read(file: Path) -> dict[str, str]:
    """By key, what each cell of a list is."""
    if not file.exists():
        raise UserError(f"--cells: {file} does not exist")
    check_regular(file, f"--cells: {file}")
    named = {}
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        text = line.strip()
        if text and not text.startswith("#"):
            match = LINE.fullmatch(text)
            if not match:
                raise UserError(f"--cells: {file}, line {number} does not begin with the key of a cell: {text[:60]!r}")
            named[match[1]] = match[2] or match[1]
    if not named:
        raise UserError(f"--cells: {file} names no cell; fedgrid plan --missing writes such a list")
    return named
