"""The accuracy table: rows by data set, heterogeneity and domain, and the extra columns that an experiment asks for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.footnotes import Footnotes
from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores.comparisons import ROUNDING
from fedgrid.analysis.scores.domains import AVERAGE, EVERY, Column
from fedgrid.analysis.scores.results import ROW, Results
from fedgrid.analysis.scores.summary import SCORED, cell_scores
from fedgrid.analysis.tables.grid import Entry, Grid, levels
from fedgrid.analysis.tables.pivot import AVERAGED, Pivot, heads, pivot, points, without_number


def accuracy(results: Results, options: Mapping[str, Any]) -> tuple[pd.DataFrame, Grid]:
    """The numbers as `Pivot.tidy`, and the table to print.

    Options, all optional: `std` (over clients), `ranks` (marks of the first three), `averaged` (a row with the mean
    over rows), `arrows` (whether a number lies above or below that), `delta` (name of a row: the difference to it, in
    points), `domains` (a column is a domain). `UserError` when `delta` names no row.
    """
    pivoted = pivot(results, bool(options.get("domains")), options.get("delta"))
    notes = Footnotes(results, pivoted.table.reset_index())
    several = len(results.study.seeds) > 1
    entries = pivoted.table.to_dict("index")
    means = pivoted.averaged.to_dict("index")
    rows = [
        (
            name,
            [
                printed
                for data, heterogeneity, domain in pivoted.columns
                for printed in placed(
                    (label, data, heterogeneity, domain),
                    accuracy_entries(
                        entries[label, data, heterogeneity, domain],
                        means[data, heterogeneity, domain],
                        notes.letter(label, data, heterogeneity),
                        options,
                        domain,
                        several,
                    ),
                )
            ],
        )
        for label, name in pivoted.rows.items()
    ]
    if options.get("averaged"):
        rows.append((AVERAGED, [printed for column in pivoted.columns for printed in of_mean(means[column], options)]))
    statistics = ["Acc. (%)", "Std. over clients (%)"] if options.get("std") else [""]
    header = levels(list(heads(results, pivoted.columns, statistics)))
    grid = Grid(caption(results, pivoted, options), "Method", header, rows, notes.texts)
    return pivoted.tidy(bool(options.get("averaged"))), grid


def placed(position: tuple[str, str, str, str], entries: list[Entry]) -> list[Entry]:
    """The values of one entry, of which the first, the accuracy, has its position."""
    return [replace(entries[0], position=position), *entries[1:]]


def accuracy_entries(
    entry: dict[str, Any], mean: dict[str, float], notes: str, options: Mapping[str, Any], domain: str, several: bool
) -> list[Entry]:
    """The printed values of one entry: accuracy, with ± of `several` seeds, and std over clients where asked for."""
    if entry["status"] not in SCORED:
        return [without_number(entry["status"], notes), *[Entry()] * bool(options.get("std"))]
    arrows = bool(options.get("averaged") and options.get("arrows"))
    # among domains, papers print the difference for their mean alone
    delta = f" ({points(entry['delta'])})" if options.get("delta") and domain in (EVERY, AVERAGE) else ""
    spread = f" ± {percent(entry['accuracy_std_seeds'])}" if several else ""
    text = f"{percent(entry['accuracy'])}{spread}{delta}"
    marks = captions.RANK_MARKS if options.get("ranks") else {}
    first = Entry(
        text + arrow(entry["accuracy"], mean["accuracy"]) * arrows,
        marks.get(entry["rank"], ""),
        notes,
        bold=entry["supported"],
        italic=entry["best"] and not entry["supported"],
    )
    if not options.get("std"):
        return [first]
    spread_text = percent(entry["std_clients"]) + arrow(entry["std_clients"], mean["std_clients"]) * arrows
    return [first, Entry(spread_text, marks.get(entry["rank_std_clients"], ""))]


def of_mean(mean: dict[str, float], options: Mapping[str, Any]) -> list[Entry]:
    """The printed values of the row Averaged in one column."""
    names = ["accuracy", "std_clients"] if options.get("std") else ["accuracy"]
    return [Entry(percent(mean[name])) for name in names]


def arrow(value: float, mean: float) -> str:
    """Whether a value is above or below the mean over rows."""
    if abs(value - mean) < ROUNDING:
        return ""
    return " ↑" if value > mean else " ↓"


def caption(results: Results, pivoted: Pivot, options: Mapping[str, Any]) -> str:
    """What the numbers are."""
    std, ranks = bool(options.get("std")), bool(options.get("ranks"))
    return " ".join(
        [
            captions.accuracy_table(results, cell_scores(results), by_row(pivoted), std, ranks),
            *(["In a column of the std over clients, marks go to the lowest."] * (std and ranks)),
            *(beside(options, pivoted.columns)),
        ]
    )


def by_row(pivoted: Pivot) -> pd.DataFrame:
    """The entries of all clients, or of the mean over domains; `supported` is whether the entry of any domain is."""
    table = pivoted.table.reset_index()
    table = table.assign(supported=table.groupby(ROW)["supported"].transform("any"))
    return table[table["domain"].isin([EVERY, AVERAGE])]


def beside(options: Mapping[str, Any], columns: list[Column]) -> list[str]:
    """Sentences on the columns beside the accuracies."""
    sentences = []
    if any(domain == AVERAGE for *_, domain in columns):
        sentences.append(
            "A column is a domain: the mean over its clients. Avg.: the mean over domains, each weighted equally."
        )
    if options.get("delta"):
        sentences.append(f"In parentheses: the difference to {options['delta']} in points.")
    if options.get("averaged"):
        arrows = "; ↑ and ↓: above and below it" if options.get("arrows") else ""
        sentences.append(f"{AVERAGED}: the mean over the rows that have a value{arrows}.")
    return sentences
