"""The results of a study, or of an experiment, as data frames."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from fedgrid.analysis.pages.table_set import tables
from fedgrid.analysis.scores import summary
from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.curves import curves
from fedgrid.analysis.scores.results import Results, load
from fedgrid.analysis.tables.common import grid
from fedgrid.errors import UserError
from fedgrid.grid.plan.planned_study import PARTIAL

FILE = "results.parquet"


@dataclass(frozen=True)
class Table:
    """A table of the page.

    `numbers` has an entry in each row, in full precision, accuracies as fractions. `printed` is the table as the page
    shows it: rows and columns have the titles of the page, and values are texts.
    """

    caption: str
    numbers: pd.DataFrame
    printed: pd.DataFrame
    html: str

    def _repr_html_(self) -> str:
        return self.html


class StudyResults:
    """What a study, or one of its experiments, computed. Frames are the user's own copies."""

    def __init__(self, results: Results):
        self._results = results

    @property
    def title(self) -> str:
        """The title of the study."""
        return self._results.study.title

    @property
    def values(self) -> pd.DataFrame:
        """Every recorded number, one a row: method, data, heterogeneity, seed, round, client, metric, value.

        Methods, data sets and kinds of heterogeneity have their titles; accuracies are fractions.
        """
        return self._titled(self._results.rows)

    @property
    def curves(self) -> pd.DataFrame:
        """Every metric of every cell, one row for each round.

        Columns: method, data, heterogeneity, seed, round, metric; mean, std (population) and total over the clients
        that have the metric, and their number, clients. As in tables, accuracies (fractions) and losses after local
        training include clients that sat a round out.
        """
        return self._titled(curves(self._results))

    @property
    def scores(self) -> pd.DataFrame:
        """The score of each cell, one a row, at the point and the round that the study's tables show.

        Beside names, seed and status: accuracy (mean over clients), accuracy_weighted (by test images) and std_clients
        (population standard deviation over clients), all fractions; NaN for a cell without results.
        """
        return self._titled(summary.cell_scores(self._results))

    @property
    def cells(self) -> pd.DataFrame:
        """One cell a row: method, data, heterogeneity, seed, status (ok, diverged, failed, …), reason and key.

        A cell that fedgrid trained also has its rounds, seconds and memory (peak, in bytes); others have NaN there.
        """
        rows = []
        for cell in self._results.cells:
            names = {"label": cell.label, "data": cell.data, "heterogeneity": cell.heterogeneity, "seed": cell.seed}
            row = names | {"status": cell.status, "reason": cell.reason, "key": cell.key}
            if isinstance(cell, FinishedCell) and not cell.external:
                costs = cell.costs
                row |= {"rounds": cell.rounds, "seconds": costs.seconds.total, "memory": costs.peak_memory_bytes}
            rows.append(row)
        return self._titled(pd.DataFrame(rows))

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables of the page by the name of their files, such as ``accuracy``."""
        return {
            name: Table(printed.caption, self._titled(numbers), _as_printed(printed), grid.html(printed))
            for name, (numbers, printed) in tables(self._results)
        }

    def _titled(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A copy with titles for the labels of rows, data sets and kinds of heterogeneity."""
        results = self._results
        titles = {
            "label": results.names,
            "data": {data: results.title(data) for data, _ in results.columns},
            "heterogeneity": {kind: results.heterogeneity_title(kind) for _, kind in results.columns},
        }
        changed = {name: frame[name].astype(object).replace(known) for name, known in titles.items() if name in frame}
        return frame.assign(**changed).rename(columns={"label": "method"})


def _as_printed(table: grid.Grid) -> pd.DataFrame:
    leaves = [[text for text, span in level for _ in range(span)] for level in table.header]
    columns = pd.MultiIndex.from_arrays(leaves) if len(leaves) > 1 else pd.Index(leaves[0])
    index = pd.Index([name for name, _ in table.rows], name=table.stub)
    return pd.DataFrame([[entry.text for entry in entries] for _, entries in table.rows], index, columns)


def results(folder: str | os.PathLike[str]) -> StudyResults:
    """The results in a folder that a run made, such as ``results/digits`` or ``results/fedcosr/table2``.

    Raises UserError where there are none, naming those in the folder that have some, and `Damaged`
    where the file has changed since it was written.
    """
    file = Path(folder) / FILE
    if not file.is_file():
        below = sorted(experiment.parent.name for experiment in Path(folder).glob(f"*/{FILE}"))
        problem = f"name one of these in it: {', '.join(below)}" if below else "no run has made results there"
        if below == [PARTIAL]:
            problem = f"the study is not finished; {Path(folder) / PARTIAL} has what is"
        raise UserError(f"{folder}: {problem}")
    return StudyResults(load(file))
