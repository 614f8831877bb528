"""Accuracy tables of several kinds of scores beside each other: each column is divided by what is scored."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedgrid.analysis.prose.footnotes import Footnotes
from fedgrid.analysis.scores.domains import Column
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.tables.accuracy import accuracy_entries
from fedgrid.analysis.tables.grid import Entry, Grid, levels
from fedgrid.analysis.tables.pivot import Pivot, pivot


def side_by_side(
    kinds: Mapping[str, tuple[Results, str]], options: Mapping[str, Any], named: str
) -> tuple[Pivot, pd.DataFrame, Grid]:
    """The first of the `kinds` alone; one row an entry and kind, with `pivot`'s columns; and the table without caption.

    `kinds` has results and a header by name; the first one's are the study's own. The tidy table has the kind's name in
    a column called `named`. The option is `ranks`.
    """
    results = next(iter(kinds.values()))[0]
    pivoted = {name: pivot(of_kind) for name, (of_kind, _) in kinds.items()}
    first = next(iter(pivoted.values()))
    notes, several = Footnotes(results, first.table.reset_index()), len(results.study.seeds) > 1
    columns = [(column, name) for column in first.columns for name in pivoted]
    entries = {name: part.table.to_dict("index") for name, part in pivoted.items()}
    means = {name: part.averaged.to_dict("index") for name, part in pivoted.items()}

    def printed(label: str, column: Column, name: str) -> list[Entry]:
        letter = notes.letter(label, *column[:2])
        return accuracy_entries(entries[name][label, *column], means[name][column], letter, options, column[2], several)

    rows = [
        (row, [entry for column in columns for entry in printed(label, *column)]) for label, row in first.rows.items()
    ]
    leaves = [
        (results.title(data), results.heterogeneity_title(heterogeneity), kinds[name][1])
        for (data, heterogeneity, _), name in columns
    ]
    tidy = pd.concat([part.tidy(averaged=False).assign(**{named: name}) for name, part in pivoted.items()])
    return first, tidy, Grid("", "Method", levels(leaves), rows, notes.texts)
