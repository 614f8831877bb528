"""What a run of the workflow tells while it is going, in the words of its study: a line for each cell that ends."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from fedgrid.errors import say
from fedgrid.grid.costs.measured import cost
from fedgrid.grid.plan.cell_metadata import read_results
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs.standstill import unchanged_since
from fedgrid.jobs.status import Note
from fedgrid.quantities import counted, duration
from fedgrid.run.cell_states import MARKS, failure

if TYPE_CHECKING:
    from tqdm import tqdm

SHORT = 10.0
"Seconds below which a cell's time has a decimal."
LAST_LINES = 10
"Of a job's log that are shown where the job failed and nothing says why."
FEWEST_TIMED = 3
"Cells that have ended before anything is said of the time left; the first ones wait for a library to be imported."
BAR = "{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} cells  {elapsed}{postfix}"


@dataclass
class RunLog:
    """The run of a study.

    `cells` are those that it is about; `packs` has keys of cells by the name of the pack that they share a job in.
    """

    study: Study
    cells: Sequence[Cell]
    packs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    stream: TextIO = field(default_factory=lambda: sys.stderr)

    def __post_init__(self) -> None:
        waiting = {cell.key: cell for cell in self.cells if cell.waiting}
        known = {key: measured.seconds for key, cell in waiting.items() if (measured := cost(cell))}
        self.usual = mean(known.values()) if known else 1.0
        self.work = {key: known.get(key, self.usual) for key in waiting}
        "What each cell of this run is estimated to take, in seconds; all the same where nothing is known."
        pending = {cell.table_position: key for key, cell in waiting.items() if cell.pending}
        options = (cell for experiment in self.study.experiments for cell in experiment.options)
        self.pending = {c.key: pending[c.table_position] for c in options if c.table_position in pending}
        """Cells whose settings a search has yet to choose, by the keys that they may get; two rows may have the same
        cell among those."""
        self.ended: set[str] = set()
        self.began: float | None = None
        "When the first of them began, in seconds of a clock that never goes back."
        self.jobs: dict[int, tuple[str, Mapping[str, Any]]] = {}
        "By Snakemake's number: the rule and its wildcards."
        self.bar: tqdm[NoReturn] | None = None
        cached = len(self.cells) - len(waiting)
        if waiting:
            self._tell(f"{self.study.folder.name}: {counted(len(waiting), 'cell')} to run, {cached:,} cached")
            self._draw()

    def start(self, job: int, rule: str, wildcards: Mapping[str, Any]) -> None:
        """A job begins."""
        self.jobs[job] = rule, wildcards
        if self.began is None and self._cells(job):
            self.began = time.monotonic()
        if rule in ("data", "features"):
            self._tell(f"preparing {self.study.datasets[wildcards['key']].title}")

    def finish(self, job: int) -> None:
        """A job has made its files."""
        for cell in self._cells(job):
            self._end(cell, MARKS["done"], _result(cell))

    def fail(self, job: int) -> bool:
        """A job has failed; whether the log says why, so that Snakemake need not."""
        rule, wildcards = self.jobs.get(job, ("", {}))
        for cell in (cells := self._cells(job)):
            self._end(cell, *((MARKS["done"], _result(cell)) if cell.done else (MARKS["failed"], _failure(cell))))
        if not cells:
            made_for = ", ".join(map(str, wildcards.values()))
            self._tell(f"{MARKS['failed']} {rule} ({made_for}) failed; what it said stands above")
        return rule != ""

    def close(self) -> None:
        """The run is over."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def _cells(self, job: int) -> list[Cell]:
        """The cells that a job computes."""
        rule, wildcards = self.jobs.get(job, ("", {}))
        if not rule.startswith(("train", "pack")):
            return []
        keys = self.packs[wildcards["key"]] if rule == "pack" else [wildcards["key"]]
        return [self.study.known[key] for key in keys]

    def _end(self, cell: Cell, mark: str, how: str) -> None:
        if cell.key not in self.work:  # it was chosen during the run, or belongs to a search that the run came to
            self.work[cell.key] = self.work.pop(self.pending.get(cell.key, ""), self.usual)
        self.ended.add(cell.key)
        self._tell(f"{mark} {len(self.ended)}/{len(self.work)}  {_words(cell)}: {how}{self._time_left()}")
        self._draw()

    def _time_left(self) -> str:
        """The end of a line: how long the other cells will take, from the time that those before them took."""
        ended = sum(self.work[key] for key in self.ended)
        rest = sum(self.work.values()) - ended
        if not rest or self.began is None or len(self.ended) < FEWEST_TIMED:
            return ""
        return f"; about {duration((time.monotonic() - self.began) * rest / ended)} left"

    def _tell(self, line: str) -> None:
        if self.bar is not None:
            self.bar.write(line, file=self.stream)
        else:
            say(line, self.stream)

    def _draw(self) -> None:
        """Moves the bar, which a terminal has."""
        if not self.stream.isatty():
            return
        if self.bar is None:
            from tqdm import tqdm

            self.bar = tqdm(total=len(self.work), file=self.stream, bar_format=BAR, dynamic_ncols=True)
        self.bar.total = len(self.work)
        self.bar.update(len(self.ended) - self.bar.n)
        self.bar.refresh()


heard = False
"Whether Snakemake hands its events over: its profile has ``logger: fedgrid``."
current: RunLog | None = None
"That of the run of this process, once it has begun."


def page() -> Path | None:
    """What there is to look at where a run has nothing to do; the workflow replaces this."""
    return None


def begin(study: Study, cells: Sequence[Cell], packs: Mapping[str, Sequence[str]]) -> None:
    """The run of a study begins in this process; see `RunLog`."""
    global current
    current = RunLog(study, cells, packs) if heard else None


def _words(cell: Cell) -> str:
    """The cell in the words of its table."""
    partition = cell.partition
    return f"{cell.row.title}, {partition.data.title}, {partition.description}, seed {cell.seed}"


def _result(cell: Cell) -> str:
    """How a cell ended: the mean accuracy over clients of its last round, and its seconds."""
    table, metadata = read_results(cell.file)
    if metadata.status != "ok":
        return f"{metadata.status}, {metadata.reason}"
    total = metadata.costs.seconds.total
    seconds = f"{total:.1f} s" if total < SHORT else duration(total)
    point = metadata.score if cell.row.score == "paper" else cell.row.score
    rows = table.to_pandas()
    scores = rows[rows["metric"] == f"accuracy_{point}"]
    if scores.empty:
        return seconds
    means = scores.groupby("round")["value"].mean()
    since = unchanged_since(means.to_dict())
    still = f", unchanged since round {since}" if since is not None else ""
    return f"{100 * means.iloc[-1]:.2f} %{still} in {seconds}"


def _failure(cell: Cell) -> str:
    """Why a cell has no results: as its process noted, else the end of its log."""
    note = Note.read_if_possible(cell.status)
    return failure(note) if note.state else f"its process ended early; the end of {cell.log}:\n{_tail(cell.log)}"


def _tail(log: Path) -> str:
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:])
    except OSError:
        return "(there is none)"
