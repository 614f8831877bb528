"""The rows of a column from the best to the last, in groups that the seeds cannot tell apart."""

from dataclasses import dataclass
from math import comb

import pandas as pd

from fedgrid.analysis.scores.domains import EVERY
from fedgrid.analysis.scores.multiple import groups, told_apart
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import cell_scores, scores_by_column, summary
from fedgrid.grid.plan.manifest_model import Column


@dataclass(frozen=True)
class Ranking:
    """The rows of a column that have a score."""

    entries: pd.DataFrame
    "Rows of `scores.summary` by label, the best first."
    groups: list[list[str]]
    "Rows of which no two are told apart, as in `multiple.groups`."
    apart: int
    "Pairs of rows that are told apart."
    diverged: pd.Series
    "By label of a row that has no score for it, the number of seeds with which training diverged."

    def sentence(self) -> str:
        """How groups are made, and how many pairs of rows differ."""
        return (
            "All pairs are compared by two-sided moderated t-tests, paired by seed, with p-values adjusted for their "
            "number (Holm 1979), and grouped as in Piepho (2004). "
            f"Of {comb(len(self.entries), 2):,} pairs {self.apart:,} are told apart."
        )


def ranking(results: Results, column: Column) -> Ranking:
    """The ranking of a column."""
    every = summary(results)
    scores = scores_by_column(results, cell_scores(results), every).get((*column, EVERY))
    apart = [] if scores is None else told_apart(scores)
    of_column = every[(every["data"] == column[0]) & (every["heterogeneity"] == column[1])]
    of_column = of_column.set_index("label")
    entries = of_column[of_column["rank"].notna()].sort_values("rank", kind="stable")
    diverged = of_column.loc[of_column["status"] == "diverged", "seeds_failed"]
    return Ranking(entries, groups(list(entries.index), apart), len(apart), diverged)
