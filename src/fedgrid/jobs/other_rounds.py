"""Cells that need not be trained from scratch: they are finished, or have results with another number of rounds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from fedgrid.engine.state.saving import Origin
from fedgrid.errors import UserError
from fedgrid.files import write_table
from fedgrid.grid.earlier.other_rounds import continuation
from fedgrid.grid.earlier.stored import StoredResults, state_of
from fedgrid.grid.plan.cell_metadata import Attempt, Continued, Seconds, Taken, cell_metadata, read_results
from fedgrid.grid.plan.model import Cell
from fedgrid.jobs.attempts import attempts_of


def is_finished(cell: Cell, out: Path) -> bool:
    """Whether the file `out` holds a cell's results, and all that is to be kept beside them is there.

    Raises UserError where it holds another cell, or results of other images.
    """
    if not out.exists():
        return False
    metadata = cell_metadata(out)
    if metadata.key != cell.key:
        which = f"{metadata.key}, not {cell.key}"
        raise UserError(f"{out} holds another cell ({which}); delete it or name another file")
    if cell.is_of_other_images(metadata):
        raise UserError(f"{out} was trained on other images than those in the store; delete it and run again")
    return all(file.is_file() for file in cell.kept_beside(out).values())


def origin(cell: Cell, out: Path) -> Origin | None:
    """The kept state from which the training of a cell starts, whose results go to `out`; None if there is none.

    The cell's own state, if an artifact is made later, or else that of a shorter run.
    """
    for own in (cell.set_aside, state_of(out)):
        if own.is_file():
            return Origin(own, cell.key)
    run, _ = continuation(cell)
    return Origin(run.state, run.metadata.key) if run else None


def continued(cell: Cell, rounds: int) -> Continued:
    """The run that the training of a cell continued after so many `rounds`."""
    run, _ = continuation(cell)
    return Continued(rounds, run.metadata.key, run.metadata.adopted) if run else Continued(rounds, cell.key)


def attempts_before(cell: Cell) -> list[Attempt]:
    """The attempts of the shorter run that a cell continues; none if it continues from its own state."""
    run, _ = continuation(cell)
    return attempts_of(run.metadata) if run else []


def take(cell: Cell, out: Path, longer: StoredResults) -> None:
    """Writes the first rounds of a longer run, found by `longer_run`, as the results of a cell."""
    rounds = cell.row.training.rounds
    table, metadata = read_results(longer.file)
    clock = {part: seconds[:rounds] for part, seconds in metadata.clock.items()}
    spent: dict[str, Any] = {part: seconds[-1] for part, seconds in clock.items()}
    taken = replace(
        metadata,
        key=cell.key,
        spec=cell.spec,
        status="ok",
        reason="",
        rounds=rounds,
        costs=replace(metadata.costs, seconds=Seconds(total=sum(spent.values()), **spent)),
        clock=clock,
        taken=Taken(metadata.key, metadata.planned_rounds),
        state=None,
    )
    write_table(out, table.filter(pc.less_equal(table["round"], rounds)), taken.plain())
