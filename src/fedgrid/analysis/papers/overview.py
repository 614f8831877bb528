"""One experiment of a paper in a few numbers: how far it is, what became of its claims, how far orders agree."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from fedgrid.analysis.papers.agreement import Agreement, agreement, averaged
from fedgrid.analysis.papers.claims import Verdict, verdicts
from fedgrid.analysis.papers.published import join_printed_numbers
from fedgrid.analysis.prose import captions
from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.results import Results, load
from fedgrid.grid.plan.manifest_model import UNAVAILABLE, Cell
from fedgrid.quantities import counted

NOT_RUN, OUT_OF_DATE = "not run", "out of date"
AGREED = ["metric", "rows", "tau", "between_seeds"]
"""What counts of a column when agreement is summed up."""


@dataclass(frozen=True)
class Overview:
    """An experiment: its name, its folder, and what is known without results: title, source, what it lacks.

    `results` are None where it was not run, or where what was made of it is `out_of_date`. `records` has the Parquet
    file of every cell by key, `agreement` the columns of `agreement.agreement`.
    """

    id: str
    folder: Path
    title: str
    source: str = ""
    lacks: str = ""
    results: Results | None = None
    records: Mapping[str, Path] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()
    agreement: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=AGREED))
    out_of_date: bool = False

    @property
    def cells(self) -> list[Cell]:
        """Its cells; none where it has no results that can be shown."""
        return self.results.cells if self.results else []

    @property
    def finished(self) -> list[FinishedCell]:
        """Its cells that have results."""
        return self.results.finished if self.results else []

    @property
    def state(self) -> str:
        """How far it is, in a few words."""
        if self.results is None:
            return OUT_OF_DATE if self.out_of_date else NOT_RUN
        if not self.cells:
            return "cannot be run yet" if self.lacks else "needs no cells"
        if len(self.finished) < len(self.cells):
            return captions.progress(self.results).split("; ", 1)[1].rstrip(".")
        diverged = sum(cell.status == "diverged" for cell in self.cells)
        return f"complete, {diverged} diverged" if diverged else "complete"

    @property
    def absent(self) -> list[str]:
        """Sentences on cells without results that have a reason, each with how many cells it concerns."""
        reasons = Counter(
            f"{cell.status}: {cell.reason.rstrip('.')}"
            for cell in self.cells
            if cell.status in (UNAVAILABLE, "failed", "diverged")
        )
        return [f"{counted(number, 'cell')} {reason}." for reason, number in reasons.items()]


def overview(folder: Path, records: Mapping[str, Path]) -> Overview:
    """The experiment with its results in `folder`."""
    results = load(folder / "results.parquet")
    study = results.study
    about = Overview(folder.name, folder, study.title, study.source, study.lacks, results, records, verdicts(results))
    if not results.published:
        return about
    return replace(about, agreement=agreement(results, join_printed_numbers(results))[0])


def outcomes(experiments: Iterable[Overview]) -> Counter[str]:
    """How many claims have which verdict."""
    return Counter(verdict.verdict for overview in experiments for verdict in overview.verdicts)


def agreed(experiments: Iterable[Overview]) -> Agreement:
    """How far the printed order of rows by accuracy is ours, over the columns of all experiments."""
    tables = (overview.agreement[AGREED] for overview in experiments)
    return averaged(pd.concat([pd.DataFrame(columns=AGREED), *tables]))
