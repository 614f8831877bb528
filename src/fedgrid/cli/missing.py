"""What ``fedgrid plan --missing`` prints: the cells without results as lists for others to compute."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fedgrid.api.cell_lists import MissingCell, in_parts, is_list, list_text, missing_cells
from fedgrid.api.planning import Outlook
from fedgrid.errors import UserError, say_notice
from fedgrid.files import write_text
from fedgrid.grid.plan.planned_study import Study
from fedgrid.quantities import counted, estimate

PART = "todo-{number}.txt"
"The file of a part, in the working folder."


def check_missing(arguments: argparse.Namespace, files: Sequence[Path]) -> None:
    """Raises UserError for options that do not go together."""
    if not arguments.missing:
        if arguments.parts is not None:
            raise UserError("--parts: splits the list of --missing, name that too")
        return
    if arguments.cells:
        raise UserError("--missing: lists cells itself, leave out --cells")
    if len(files) > 1:
        raise UserError(f"--missing: a list is of one study, got {len(files)}")
    if arguments.parts is not None and arguments.json:
        raise UserError("--parts: writes files, leave out --json")
    if arguments.parts is not None and arguments.parts < 1:
        raise UserError(f"--parts: must be at least 1, got {arguments.parts}")


def print_missing(planned: Outlook, configfile: Path, parts: int | None, as_json: bool) -> None:
    """Prints the cells without results, or writes them to files in `parts`."""
    (study,), cells = planned.studies, missing_cells(planned)
    if pending := sum(prospect.cell.pending for prospect in planned.prospects.values()):
        say_notice(f"{counted(pending, 'cell')} that wait for the choice of a search are not listed")
    if as_json:
        print(json.dumps([asdict(cell) for cell in cells], indent=1, ensure_ascii=False))
    elif parts is None:
        print(list_text(cells, configfile, study), end="")
    else:
        _write_parts(in_parts(cells, parts), configfile, study)


def _write_parts(parts: Sequence[Sequence[MissingCell]], configfile: Path, study: Study) -> None:
    files = [Path(PART.format(number=number)) for number in range(1, len(parts) + 1)]
    for file in files:
        if file.exists() and not is_list(file):
            raise UserError(f"--parts: {file} is there and is no list of cells; move it away")
    for file, cells in zip(files, parts, strict=True):
        write_text(file, list_text(cells, configfile, study))
        known = [cell.seconds for cell in cells if cell.seconds is not None]
        unknown = f", {counted(len(cells) - len(known), 'cell')} of unknown time" if len(known) < len(cells) else ""
        print(f"written  {file}: {counted(len(cells), 'cell')}, about {estimate(sum(known))} on one core{unknown}")
