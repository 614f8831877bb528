"""The state of every cell of a study: from its results, its process's notes, and whether that process still runs."""

import functools
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from fedgrid.grid.costs.measured import cost
from fedgrid.grid.plan.cell_metadata import known_metadata
from fedgrid.grid.plan.manifest_model import UNAVAILABLE
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs.machine import lives
from fedgrid.jobs.status import Note
from fedgrid.quantities import counted, without_numbers
from fedgrid.run import slurm
from fedgrid.run.lock import Holder, StoreLock

MARKS = {"done": "✓", "diverged": "!", "running": "▶", "queued": "○", "failed": "✗", "missing": "·", UNAVAILABLE: "–"}

DIRECT = "run-"
"Prefix of the name of the study of a cell that is trained directly; the cell's key follows."


@dataclass(frozen=True)
class State:
    """A key of `MARKS` and a remark.

    For a running cell, the share of its rounds that is done; for one that failed, where in the user's own files.
    """

    name: str
    remark: str = ""
    share: float = 0.0
    frames: tuple[str, ...] = ()


def read(study: Study) -> dict[str, State]:
    """The state of every cell, by key.

    A cell without results is queued while a run uses the store, unless it failed in that very run.
    """
    run = StoreLock(study.store).holder()
    in_queue = functools.cache(_numbers_in_queue)
    return {key: _state(cell, run, in_queue) for key, cell in study.by_key.items()}


def are_trained_directly(store: Path) -> bool:
    """Whether cells of a store are running that no run of the workflow started; see `fedgrid.run.direct`."""
    keys = {file.stem.split("-")[1] for file in store.glob(f"plans/{DIRECT}*.json")}
    notes = (Note.read_if_possible(store / "status" / f"{key}.json") for key in keys)
    return any(noted.state == "running" and _lives(noted, lambda: None) for noted in notes)


def _state(cell: Cell, run: Holder | None, in_queue: Callable[[], Set[str] | None]) -> State:
    if cell.done:
        head = known_metadata(cell.file)
        if head is None:
            return State("failed", f"{cell.file} is damaged: delete it, the next run trains the cell again")
        return State("done") if head.status == "ok" else State(head.status, head.reason)
    if cell.unavailable:
        return State(UNAVAILABLE, cell.unavailable)
    try:
        noted = Note.read(cell.status)
    except FileNotFoundError:
        return State("queued" if run else "missing")
    except ValueError:  # its process was killed while it wrote on a full disk
        return State("failed", f"{cell.status} is damaged; the next run continues the cell")
    if noted.state == "running" and _lives(noted, in_queue):
        return State("running", f"round {noted.round} of {noted.rounds}", noted.round / max(1, noted.rounds))
    if run and noted.time < run.began:
        return State("queued")
    return State("failed", failure(noted), frames=noted.frames)


def _numbers_in_queue() -> Set[str] | None:
    """The numbers of the user's jobs; None if SLURM does not answer, so that jobs on other machines may be running."""
    jobs = slurm.jobs()
    return None if jobs is None else {job.number for job in jobs}


def _lives(noted: Note, in_queue: Callable[[], Set[str] | None]) -> bool:
    """Whether the process still runs; assumed of one on another machine without a SLURM job."""
    if noted.host != socket.gethostname():
        queued = in_queue() if noted.job else None
        return queued is None or noted.job in queued
    return _lives_here(noted)


def _lives_here(noted: Note) -> bool:
    return noted.host == socket.gethostname() and lives(noted.pid)


def failure(noted: Note) -> str:
    """Why a cell has no results: as its process noted or, if that was killed, the most likely reason."""
    if noted.state == "failed":
        return noted.reason
    where = f"in round {noted.round} of {noted.rounds}"
    if noted.state == "interrupted" or _lives_here(noted):  # Snakemake does not wait for what it stops
        return f"{noted.reason or 'was interrupted'} {where}; the next run continues it"
    if noted.job and (known := slurm.reason(noted.job)):
        return f"{known} {where}; the next run continues it"
    held = f"it held {noted.memory:.0f} MB"
    return f"was killed {where}, by the system for lack of memory or by hand ({held}); the next run continues it"


def failures(study: Study, states_by_key: Mapping[str, State]) -> list[str]:
    """What failed or diverged and why, a line for the cells of an entry that share the reason; then where that was."""
    alike: dict[tuple[tuple[str, str, str], State], list[Cell]] = {}
    for key, cell in study.by_key.items():
        if (state := states_by_key[key]).name in ("failed", "diverged"):
            kind = replace(state, share=0.0, remark=without_numbers(state.remark) if state.frames else state.remark)
            alike.setdefault((cell.table_position[:3], kind), []).append(cell)
    lines = []
    for cells in alike.values():
        state = states_by_key[cells[0].key]
        more = "".join(f", {cell.seed}" for cell in cells[1:])
        what = cells[0].description.replace(", seed ", ", seeds ") if more else cells[0].description
        lines.append(f"{MARKS[state.name]} {what}{more}: {state.remark} (fedgrid logs {cells[0].key[:8]})")
        lines += [f"    {frame}" for frame in state.frames]
    return lines


def not_started(cells: Iterable[Cell], states_by_key: Mapping[str, State]) -> list[str]:
    """Why cells were not started, where a run ends: a line for each reason."""
    waiting = [cell for cell in cells if states_by_key[cell.key].name in ("queued", "missing")]
    reasons = Counter(map(_waited_for, waiting))
    return [f"{counted(number, 'cell')} not started: {why}" for why, number in reasons.items()]


def _waited_for(cell: Cell) -> str:
    if cell.pending:
        return "a search has yet to choose the settings"
    if not all(file.is_file() for file in cell.needs):
        return "the run ended before the data or the partition was made"
    return "the run ended first"


def seconds_left(study: Study, states_by_key: Mapping[str, State]) -> float | None:
    """Seconds until the last cell is done, from measured costs, with as many cells at a time as now; None if unknown.

    A cell without a measured precedent counts as the mean of the others.
    """
    ended = ("done", "diverged", UNAVAILABLE)
    waiting = {key: state for key, state in states_by_key.items() if state.name not in ended}
    known = {key: measured.seconds for key in waiting if (measured := cost(study.by_key[key]))}
    if not known:
        return None if waiting else 0.0
    usual = mean(known.values())
    work = sum(known.get(key, usual) * (1 - state.share) for key, state in waiting.items())
    return work / max(1, sum(state.name == "running" for state in waiting.values()))
