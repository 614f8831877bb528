"""Results as rows × columns × statistics: what every table of methods by data set and heterogeneity is printed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.footnotes import Footnotes
from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores import domains as of_domains
from fedgrid.analysis.scores.comparisons import ROUNDING
from fedgrid.analysis.scores.domains import Column
from fedgrid.analysis.scores.fairness import SPREADS
from fedgrid.analysis.scores.results import COLUMN, Results, choose
from fedgrid.analysis.scores.summary import ENTRY, NOTHING_YET, SCORED, cell_scores, summary
from fedgrid.analysis.tables.common.grid import Entry, Grid, Header, Table, levels

AVERAGED = "Averaged"
"""Name of the row with the mean over rows."""
DASHES = ("missing", "unscored", *SCORED, *NOTHING_YET)
"""Statuses of entries that are a dash; of others without a score the status itself is printed."""
NAMES = {of_domains.AVERAGE: "Avg."}
"""Domain → its words in a header, where they are others."""


@dataclass(frozen=True)
class Statistic:
    """A number of every entry of an accuracy table, which has a column of its own below each data set's."""

    value: str
    "Its column in `scores.summary`, a fraction."
    header: str
    rank: str
    "The column of `Pivot.table` with its rank within a column."
    sentence: str = ""
    "What it is, for the caption; without its full stop, as the mean over seeds may follow."
    marks: str = ""
    "A sentence on the ranks of a number of which the lowest is the first; empty: the highest is."

    def explained(self, several: bool) -> str:
        """The sentence on it, where there are `several` seeds or one."""
        return self.sentence + (", mean over seeds." if several else ".")


STATISTICS = {
    "accuracy": Statistic("accuracy", "Acc. (%)", "rank"),
    "std": Statistic(
        "std_clients",
        "Std. over clients (%)",
        "rank_std_clients",
        "Std. over clients: population standard deviation",
        "In a column of the std over clients, marks go to the lowest.",
    ),
    "worst_tenth": Statistic(
        "worst_tenth",
        "Worst 10 % (%)",
        "rank_worst_tenth",
        "Worst 10 %: mean accuracy of the worst tenth of the clients",
    ),
    "worst_client": Statistic(
        "worst_client", "Worst client (%)", "rank_worst_client", "Worst client: the lowest accuracy of a client"
    ),
    "jain": Statistic(
        "jain",
        "Jain's index (%)",
        "rank_jain",
        "Jain's index: (Σa)² / (N·Σa²) of the clients' accuracies a, 100 % where all are equal",
    ),
}
"""Option of the accuracy table → the numbers that it adds; the accuracies, which come first, are always there."""


@dataclass(frozen=True)
class Pivot:
    """The numbers of a study, as fractions.

    `rows` are label → name. `table` is indexed by `ENTRY` and has the columns of `scores.summary`, the ranks of all
    `STATISTICS`, `best` (whether it is the highest of several) and, where asked for, `delta` (difference of the
    accuracy to one row's). `averaged` is indexed by column and has the mean of each of `STATISTICS` over those rows
    that have a value.
    """

    rows: dict[str, str]
    columns: list[Column]
    table: pd.DataFrame
    averaged: pd.DataFrame

    def tidy(self, averaged: bool, shown: Sequence[Statistic] = ()) -> pd.DataFrame:
        """One row an entry, and those of the row Averaged where asked for; without domains where there are none.

        Numbers of `fairness.SPREADS` are there where they are `shown`.
        """
        table = self.table.drop(columns="best").reset_index()
        if averaged:
            means = self.averaged.reset_index().assign(label=AVERAGED, status="averaged", supported=False)
            table = pd.concat([table, means], ignore_index=True)
        hidden = [one for one in STATISTICS.values() if one.value in SPREADS and one not in shown]
        table = table.drop(columns=[name for one in hidden for name in (one.value, one.rank)], errors="ignore")
        without_domains = all(domain == of_domains.EVERY for *_, domain in self.columns)
        return table.drop(columns="domain") if without_domains else table


def pivot(results: Results, domains: bool = False, delta: str | None = None) -> Pivot:
    """The numbers of a study; `domains` makes a column a domain, `delta` is the name of the row to compare with.

    Raises `UserError` when there is no such row.
    """
    table = summary(results, domains).set_index(ENTRY)
    for statistic in list(STATISTICS.values())[1:]:  # accuracies are ranked already
        values = (table.loc[table["status"] == "ok", statistic.value] / ROUNDING).round()
        ranks = values.groupby([*COLUMN, "domain"]).rank(method="min", ascending=bool(statistic.marks))
        table[statistic.rank] = ranks.astype("Int64")
    ranked = table["rank"].groupby([*COLUMN, "domain"]).transform("count")
    table["best"] = (table["rank"] == 1).fillna(False).astype(bool) & (ranked > 1)
    printed = table[table["status"].isin(SCORED)]
    columns = of_domains.columns(results, domains)
    by_column = printed.groupby([*COLUMN, "domain"])[[statistic.value for statistic in STATISTICS.values()]].mean()
    averaged = by_column.reindex(pd.MultiIndex.from_tuples(columns, names=[*COLUMN, "domain"]))
    if delta is not None:
        names = list(results.names.values())
        label = list(results.names)[names.index(choose(delta, names, "row"))]
        there = printed.loc[printed.index.get_level_values("label") == label, "accuracy"].droplevel("label")
        table["delta"] = printed["accuracy"] - there.reindex(printed.index.droplevel("label")).to_numpy()
    return Pivot(results.names, columns, table, averaged)


def column_name(results: Results, data: str, heterogeneity: str, domain: str) -> str:
    """A column in a sentence: data set, heterogeneity, and domain if it is one."""
    return ", ".join(filter(None, [*results.titles(data, heterogeneity), NAMES.get(domain, domain)]))


def header_of(results: Results, columns: Sequence[tuple[str, ...]], statistics: Sequence[str]) -> Header:
    """The header of a table in which every column has all `statistics`; columns may have names below their domain."""
    return levels(
        [
            (*results.titles(data, heterogeneity), NAMES.get(domain, domain), *others, statistic)
            for data, heterogeneity, domain, *others in columns
            for statistic in statistics
        ]
    )


def without_number(status: str, notes: str) -> Entry:
    """What is printed in place of a number: a dash, or the word for why there is none."""
    return Entry(notes=notes) if status in DASHES else Entry(status, notes=notes)


def printed_numbers(
    results: Results,
    entry: Mapping[str, Any],
    notes: str,
    shown: Sequence[Statistic] = (STATISTICS["accuracy"],),
    ranks: bool = False,
    delta: str = "",
    means: Mapping[str, float] = {},
) -> list[Entry]:
    """The numbers `shown` of one entry of a `Pivot`: its accuracy with ± of several seeds and `delta`, then the others.

    With marks of `ranks`, and with arrows where there are `means` over rows.
    """
    if entry["status"] not in SCORED:
        return [without_number(entry["status"], notes), *[Entry()] * (len(shown) - 1)]
    spread = f" ± {percent(entry['accuracy_std_seeds'])}" if len(results.study.seeds) > 1 else ""
    marks = captions.RANK_MARKS if ranks else {}
    entries = []
    for number in shown:
        behind = spread + delta if number.value == "accuracy" else ""
        arrows = arrow(entry[number.value], means[number.value]) if means else ""
        entries.append(Entry(percent(entry[number.value]) + behind + arrows, marks.get(entry[number.rank], "")))
    italic = entry["best"] and not entry["supported"]
    return [replace(entries[0], notes=notes, bold=entry["supported"], italic=italic), *entries[1:]]


def arrow(value: float, mean: float) -> str:
    """Whether a value is above or below the mean over rows."""
    if abs(value - mean) < ROUNDING:
        return ""
    return " ↑" if value > mean else " ↓"


def side_by_side(kinds: Mapping[str, tuple[Results, str]], ranks: bool, named: str, explained: str) -> Table:
    """One row an entry and kind, with `pivot`'s columns, and the table to print.

    `kinds` has results and a header by name; the first one's are the study's own. The tidy table has the kind's name in
    a column called `named`; what the kinds are is `explained` at the end of the caption.
    """
    results = next(iter(kinds.values()))[0]
    pivoted = {name: pivot(of_kind) for name, (of_kind, _) in kinds.items()}
    first = next(iter(pivoted.values()))
    notes = Footnotes(results, first.table.reset_index())
    columns = [(column, name) for column in first.columns for name in pivoted]
    entries = {name: part.table.to_dict("index") for name, part in pivoted.items()}

    def printed(label: str, column: Column, name: str) -> list[Entry]:
        return printed_numbers(results, entries[name][label, *column], notes.letter(label, *column[:2]), ranks=ranks)

    rows = [
        (row, [entry for column in columns for entry in printed(label, *column)]) for label, row in first.rows.items()
    ]
    leaves = [(*results.titles(*column[:2]), kinds[name][1]) for column, name in columns]
    tidy = pd.concat([part.tidy(averaged=False).assign(**{named: name}) for name, part in pivoted.items()])
    caption = captions.accuracy_table(results, cell_scores(results), first.table.reset_index(), ranks)
    return tidy, Grid(f"{caption} {explained}", "Method", levels(leaves), rows, notes.texts)
