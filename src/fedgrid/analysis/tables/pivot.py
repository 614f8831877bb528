"""Results as rows × columns × statistics: what every table of methods by data set and heterogeneity is printed from."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from fedgrid.analysis.prose.phrases import decimals
from fedgrid.analysis.scores import domains as of_domains
from fedgrid.analysis.scores.comparisons import ROUNDING
from fedgrid.analysis.scores.domains import Column
from fedgrid.analysis.scores.results import COLUMN, Results, choose
from fedgrid.analysis.scores.summary import ENTRY, NOTHING_YET, SCORED, summary
from fedgrid.analysis.tables.grid import Entry

AVERAGED = "Averaged"
"""Name of the row with the mean over rows."""
DASHES = ("missing", "unscored", *SCORED, *NOTHING_YET)
"""Statuses of entries that are a dash; of others without a score the status itself is printed."""
NAMES = {of_domains.AVERAGE: "Avg."}
"""Domain → its words in a header, where they are others."""


@dataclass(frozen=True)
class Pivot:
    """The numbers of a study, as fractions.

    `rows` are label → name. `table` is indexed by `ENTRY` and has the columns of `scores.summary`, `rank_std_clients`
    (1 is the lowest), `best` (whether it is the highest of several) and, where asked for, `delta` (difference of the
    accuracy to one row's). `averaged` is indexed by column and has the mean over those rows that have a value, of
    `accuracy` and `std_clients`.
    """

    rows: dict[str, str]
    columns: list[Column]
    table: pd.DataFrame
    averaged: pd.DataFrame

    def tidy(self, averaged: bool) -> pd.DataFrame:
        """One row an entry, and those of the row Averaged where asked for; without domains where there are none."""
        table = self.table.drop(columns="best").reset_index()
        if averaged:
            means = self.averaged.reset_index().assign(label=AVERAGED, status="averaged", supported=False)
            table = pd.concat([table, means], ignore_index=True)
        without_domains = all(domain == of_domains.EVERY for *_, domain in self.columns)
        return table.drop(columns="domain") if without_domains else table


def pivot(results: Results, domains: bool = False, delta: str | None = None) -> Pivot:
    """The numbers of a study; `domains` makes a column a domain, `delta` is the name of the row to compare with.

    Raises `UserError` when there is no such row.
    """
    table = summary(results, domains).set_index(ENTRY)
    table["rank_std_clients"] = lowest_first(table.loc[table["status"] == "ok", "std_clients"])
    ranked = table["rank"].groupby([*COLUMN, "domain"]).transform("count")
    table["best"] = (table["rank"] == 1).fillna(False).astype(bool) & (ranked > 1)
    printed = table[table["status"].isin(SCORED)]
    columns = of_domains.columns(results, domains)
    by_column = printed.groupby([*COLUMN, "domain"])[["accuracy", "std_clients"]].mean()
    averaged = by_column.reindex(pd.MultiIndex.from_tuples(columns, names=[*COLUMN, "domain"]))
    if delta is not None:
        choose(delta, list(results.names.values()), "row")
        label = next(label for label, name in results.names.items() if name == delta)
        there = printed.loc[printed.index.get_level_values("label") == label, "accuracy"].droplevel("label")
        table["delta"] = printed["accuracy"] - there.reindex(printed.index.droplevel("label")).to_numpy()
    return Pivot(results.names, columns, table, averaged)


def column_name(results: Results, data: str, heterogeneity: str, domain: str) -> str:
    """A column in a sentence: data set, heterogeneity, and domain if it is one."""
    names = [results.title(data), results.heterogeneity_title(heterogeneity), NAMES.get(domain, domain)]
    return ", ".join(filter(None, names))


def points(fraction: float) -> str:
    """A difference of fractions, in points with a sign."""
    return decimals(100 * fraction, signed=True)


def lowest_first(values: pd.Series) -> pd.Series:
    """Ranks within each column, from the lowest value on; equal values share a rank."""
    rounded = (values / ROUNDING).round()
    return rounded.groupby([*COLUMN, "domain"]).rank(method="min").astype("Int64")


def heads(results: Results, columns: list[Column], statistics: list[str]) -> Iterator[tuple[str, ...]]:
    """The names of all columns of a table from the top, for `grid.levels`: every column has all `statistics`."""
    for data, heterogeneity, domain in columns:
        for statistic in statistics:
            yield results.title(data), results.heterogeneity_title(heterogeneity), NAMES.get(domain, domain), statistic


def without_number(status: str, notes: str) -> Entry:
    """What is printed in place of a number: a dash, or the word for why there is none."""
    return Entry(notes=notes) if status in DASHES else Entry(status, notes=notes)
