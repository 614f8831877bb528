"""The accuracy table: rows by data set, heterogeneity and domain, and the extra columns that an experiment asks for."""

from dataclasses import dataclass, replace

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.footnotes import Footnotes
from fedgrid.analysis.prose.phrases import decimals, percent
from fedgrid.analysis.scores.domains import AVERAGE, EVERY, Column
from fedgrid.analysis.scores.results import ROW, Results
from fedgrid.analysis.scores.summary import cell_scores
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table
from fedgrid.analysis.tables.common.pivot import (
    AVERAGED,
    STATISTICS,
    Pivot,
    Statistic,
    header_of,
    pivot,
    printed_numbers,
)


@dataclass(frozen=True)
class Options(TableOptions):
    """What a study may say of it."""

    std: bool = False
    "A column with the standard deviation over clients."
    worst_tenth: bool = False
    "A column with the mean over the worst tenth of the clients."
    worst_client: bool = False
    "A column with the lowest accuracy of a client."
    jain: bool = False
    "A column with Jain's index of the clients' accuracies."
    ranks: bool = False
    "Marks of the first three of a column."
    averaged: bool = False
    "A last row with the mean over rows."
    arrows: bool = False
    "Whether each number lies above or below that mean."
    domains: bool = False
    "A column for each domain, and one for their mean."
    delta: str = ""
    "Name of a row: the difference to it, in points."


def make_table(results: Results, options: Options) -> Table:
    """The numbers as `Pivot.tidy`, and the table to print; `UserError` when `delta` names no row."""
    pivoted = pivot(results, options.domains, options.delta or None)
    shown, arrows = statistics(options), options.averaged and options.arrows
    notes = Footnotes(results, pivoted.table.reset_index())
    entries, means = pivoted.table.to_dict("index"), pivoted.averaged.to_dict("index")

    def printed(label: str, column: Column) -> list[Entry]:
        entry, letters = entries[label, *column], notes.letter(label, *column[:2])
        # among domains, papers print the difference for their mean alone
        compared = options.delta and column[2] in (EVERY, AVERAGE)
        delta = f" ({decimals(100 * entry['delta'], signed=True)})" if compared else ""
        mean = means[column] if arrows else {}
        first, *others = printed_numbers(results, entry, letters, shown, options.ranks, delta, mean)
        return [replace(first, position=(label, *column)), *others]

    rows = [
        (name, [entry for column in pivoted.columns for entry in printed(label, column)])
        for label, name in pivoted.rows.items()
    ]
    if options.averaged:
        averages = [Entry(percent(means[column][number.value])) for column in pivoted.columns for number in shown]
        rows.append((AVERAGED, averages))
    header = header_of(results, pivoted.columns, [number.header for number in shown] if shown[1:] else [""])
    grid = Grid(caption(results, pivoted, options), "Method", header, rows, notes.texts)
    return pivoted.tidy(options.averaged, shown), grid


def statistics(options: Options) -> list[Statistic]:
    """The numbers of each entry that are shown: its accuracy, and those that the options ask for."""
    return [number for name, number in STATISTICS.items() if getattr(options, name, name == "accuracy")]


def caption(results: Results, pivoted: Pivot, options: Options) -> str:
    """What the numbers are."""
    several, others = len(results.study.seeds) > 1, statistics(options)[1:]
    also = [number.explained(several) for number in others]
    sentences = [
        captions.accuracy_table(results, cell_scores(results), by_row(pivoted), options.ranks, also),
        *(number.marks for number in others if options.ranks),
        *beside(options, pivoted.columns),
    ]
    return " ".join(filter(None, sentences))


def by_row(pivoted: Pivot) -> pd.DataFrame:
    """The entries of all clients, or of the mean over domains; `supported` is whether the entry of any domain is."""
    table = pivoted.table.reset_index()
    table = table.assign(supported=table.groupby(ROW)["supported"].transform("any"))
    return table[table["domain"].isin([EVERY, AVERAGE])]


def beside(options: Options, columns: list[Column]) -> list[str]:
    """Sentences on the columns beside the accuracies."""
    sentences = []
    if any(domain == AVERAGE for *_, domain in columns):
        sentences.append(
            "A column is a domain: the mean over its clients. Avg.: the mean over domains, each weighted equally."
        )
    if options.delta:
        sentences.append(f"In parentheses: the difference to {options.delta} in points.")
    if options.averaged:
        arrows = "; ↑ and ↓: above and below it" if options.arrows else ""
        sentences.append(f"{AVERAGED}: the mean over the rows that have a value{arrows}.")
    return sentences
