"""Results of planned cells with another number of rounds: to continue from their state, or to take rounds out of."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from fedgrid.grid.earlier.stored import StoredResults, other_results
from fedgrid.grid.plan.keys import key_of_cell
from fedgrid.grid.plan.model import Cell
from fedgrid.settings import ARTIFACTS, Training

LISTED = 2
"Cells that a sentence names."
NOT_KEPT = "their state was not kept (artifacts: [state])"
WITHOUT_MATRICES = "their matrices of earlier rounds were not kept (artifacts: [cooperation])"


def other_runs(cell: Cell) -> Iterator[StoredResults]:
    """Complete results of a cell, with today's code, with fewer or more rounds, in no order."""
    for stored in other_results(cell):
        row = replace(cell.row, training=replace(cell.row.training, rounds=stored.metadata.planned_rounds))
        key = key_of_cell(row, cell.partition, cell.model, cell.train_seed, cell.code)  # covers code and partition too
        if key == stored.metadata.key and not cell.is_of_other_images(stored.metadata):
            yield stored


def continuation(cell: Cell) -> tuple[StoredResults | None, str]:
    """The longest of the shorter runs from whose kept state a cell can continue; without one, why not.

    The reason is empty where there is no shorter run.
    """
    shorter = [run for run in other_runs(cell) if run.metadata.planned_rounds < cell.row.training.rounds]
    reasons = {run.file: _obstacle(cell, run) for run in shorter}
    able = [run for run in shorter if not reasons[run.file]]
    if able:
        return max(able, key=lambda run: run.metadata.planned_rounds), ""
    return None, min(reasons.values(), key=lambda reason: reason == NOT_KEPT, default="")


def _obstacle(cell: Cell, run: StoredResults) -> str:
    """Why a cell cannot continue from the state of a shorter run; empty where it can."""
    state = run.metadata.state
    if not state or not run.state.is_file():
        return NOT_KEPT
    if "cooperation" in cell.artifacts and not run.file.with_suffix(ARTIFACTS["cooperation"]).is_file():
        return WITHOUT_MATRICES
    return next(iter(state.reads), "")


def longer_run(cell: Cell) -> StoredResults | None:
    """Results of more rounds whose first rounds are the cell's results, bit for bit; None where there are none.

    Nothing may have read the number of rounds, the last round must be one that is evaluated anyway, and nothing may be
    asked for that only the end of a run has; see `_has_an_end`.
    """
    training = cell.row.training
    if cell.artifacts or _has_an_end(training) or training.rounds % training.eval_every:
        return None
    for run in other_runs(cell):
        about = run.metadata
        if about.planned_rounds > training.rounds <= about.rounds and about.reads == [] and not about.adopted:
            return run
    return None


def _has_an_end(training: Training) -> bool:
    """Whether the last rounds have scores that earlier ones lack: of models under attack, and of new clients."""
    return tuple(training.evaluate) != ("clean",) or training.new_clients > 0


def other_rounds_sentences(cells: Iterable[Cell]) -> list[str]:
    """Sentences on the cells to be trained that have results with another number of rounds."""
    continued: Counter[int] = Counter()
    obstacles: dict[str, list[Cell]] = {}
    taken = 0
    for cell in cells:
        if not cell.waiting:
            continue
        if longer_run(cell):
            taken += 1
            continue
        run, obstacle = continuation(cell)
        if run and run.metadata.state:
            continued[run.metadata.state.rounds] += 1
        elif obstacle:
            obstacles.setdefault(obstacle, []).append(cell)
    lines = [f"{_cells(n, 'continue')} after round {rounds}, from kept states" for rounds, n in continued.items()]
    for why, over in obstacles.items():
        which = "; ".join(cell.description for cell in over[:LISTED]) + "; …" * (len(over) > LISTED)
        lines.append(f"{_cells(len(over), 'start')} over in spite of results of fewer rounds: {why} ({which})")
    return lines + [f"{_cells(taken, 'take')} the first rounds of longer runs, without training"] * bool(taken)


def _cells(number: int, verb: str) -> str:
    return f"1 cell {verb}s" if number == 1 else f"{number:,} cells {verb}"
