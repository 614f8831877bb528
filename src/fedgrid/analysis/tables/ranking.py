"""The rows of one column from the best to the last, in groups that the seeds cannot tell apart, with what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.footnotes import letter
from fedgrid.analysis.prose.phrases import listing, percent
from fedgrid.analysis.scores.points import POINTS
from fedgrid.analysis.scores.ranking import Ranking, ranking
from fedgrid.analysis.scores.results import DASH, Results
from fedgrid.analysis.tables import costs
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table
from fedgrid.errors import UserError
from fedgrid.grid.study.expansion import TRAINING, point_text
from fedgrid.quantities import counted

HEADERS = ["Acc. (%)", "Groups", "Scored", "Worst 10 % (%)", "KiB up", "KiB down", "Time (s)", "Settings"]
SPENT = ("kib_up", "kib_down", "seconds")
"""Columns of the table of costs."""
RATE = "lr"
"""The learning rate of methods that take steps of their own, which is not the study's."""


@dataclass(frozen=True)
class Options(TableOptions):
    """There is nothing to choose."""


def make_table(results: Results, options: Options) -> Table:
    """One row a method with a score, the best first; `UserError` for a study of several columns.

    Columns: `label`; `accuracy` and `accuracy_std_seeds` as in the table of accuracy; `groups`, the letters of the
    groups that it belongs to; `score`, the point of a round; `worst_tenth`; `kib_up` and `kib_down` of a client and
    round; `seconds`, the median of a cell; `settings`, those that a search took, or of training that are the row's own.
    """
    if len(results.columns) != 1:
        raise UserError(
            f"table: ranking is of one data set and heterogeneity, and the study has {len(results.columns)}"
        )
    ranked = ranking(results, results.columns[0])
    letters = dict.fromkeys(ranked.entries.index, "")
    for number, group in enumerate(ranked.groups):
        letters |= {row: letters[row] + letter(number) for row in group}
    table = ranked.entries[["accuracy", "accuracy_std_seeds", "score", "worst_tenth"]].assign(
        groups=pd.Series(letters, dtype=object), settings=pd.Series(settings(results), dtype=object)
    )
    spent, _ = costs.make_table(results, costs.Options())  # of the one data set
    table = table.join(spent.set_index("label")[[*SPENT]]).reset_index()
    rows = [(results.names[row["label"]], printed_entries(row)) for row in table.to_dict("records")]
    header = [[(text, 1) for text in HEADERS]]
    return table, Grid(caption(results, ranked), "Method", header, rows)


def settings(results: Results) -> Mapping[str, str]:
    """By row, the settings that its search took, else those of training that the study gives it, where it does."""
    of_training = {
        label: {
            name: value
            for name, value in row.settings.items()
            if name.startswith(TRAINING) or (name == RATE and value is not None)
        }
        for label, row in results.study.methods.items()
    }
    chosen = {
        search.row: search.points[search.chosen] for search in results.study.searches if search.chosen is not None
    }
    return {label: point_text(values) for label, values in (of_training | chosen).items() if values}


def printed_entries(row: Mapping[str, Any]) -> list[Entry]:
    """The printed entries of one row."""
    spread = f" ± {percent(row['accuracy_std_seeds'])}" if pd.notna(row["accuracy_std_seeds"]) else ""
    return [
        Entry(f"{percent(row['accuracy'])}{spread}"),
        Entry(row["groups"]),
        Entry(POINTS.get(row["score"].removeprefix("accuracy_"), DASH)),
        Entry(percent(row["worst_tenth"])),
        *(Entry(costs.number(row[name])) for name in SPENT),
        Entry(DASH if pd.isna(row["settings"]) else row["settings"]),
    ]


def caption(results: Results, ranked: Ranking) -> str:
    """What the numbers are, and how much the seeds can tell."""
    (column,) = results.columns
    sentences = [
        f"{captions.lead(results)}: the rows on {results.column(*column)} by accuracy, over {captions.seeds(results)}.",
        "Acc.: mean over clients, then mean ± sample standard deviation over seeds.",
        f"Groups: rows that share a letter cannot be told apart. {ranked.sentence()}",
        "Worst 10 %: mean accuracy of the worst tenth of the clients, mean over seeds. KiB: of a client and round.",
        "Settings: what a search chose, else what the study gives this row's training.",
    ]
    unranked = [f"{results.names[row]} ({counted(seeds, 'seed')})" for row, seeds in ranked.diverged.items()]
    if unranked:
        sentences.append(f"Not ranked, because training diverged: {listing(unranked)}.")
    return " ".join(sentences)
