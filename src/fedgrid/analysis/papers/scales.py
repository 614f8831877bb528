"""An experiment of a paper at several scales: what is printed, and beside it what each scale came to."""

from collections.abc import Mapping, Sequence

import pandas as pd

from fedgrid.analysis.papers import measured
from fedgrid.analysis.papers.published import column_of, heads, join_printed_numbers, ordered, our_number
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.differences import compare_settings
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.tables.common.grid import Entry, Grid
from fedgrid.quantities import counted

ACCURACY = "accuracy"
NAMED_ELSEWHERE = ("data", "heterogeneity")
"""What differs between scales and stands in the header of the table."""


def beside(results: Results, scales: Mapping[str, Results]) -> Grid | None:
    """The numbers of one experiment at each of the `scales`, by their names, as a table to print.

    The columns are those of `results` in which at least two scales have numbers; None where there is none. Rows are
    joined by name, columns by the names of their data set, heterogeneity, domain and metric.
    """
    if len(scales) < 2:
        return None
    printed = in_print(results)
    numbers = {name: comparable(of_scale, printed) for name, of_scale in scales.items()}
    columns_shown = in_several(results, numbers)
    if not columns_shown:
        return None
    entries = {name: table.to_dict("index") for name, table in numbers.items()}
    seeds = {name: len(of_scale.study.seeds) for name, of_scale in scales.items()}
    rows = []
    for row in rows_of([results, *scales.values()], numbers, columns_shown):
        cells = []
        for column in columns_shown:
            cells.append(Entry(printed[row, *column]) if (row, *column) in printed else Entry())
            cells += [mean_entry(entries[name].get((row, *column)), seeds[name], column[-1]) for name in scales]
        rows.append((row, cells))
    columns = ["printed", *(f"{name} ({counted(number, 'seed')})" for name, number in seeds.items())]
    return Grid(caption(results, scales), "Method", heads(results, columns_shown, columns), rows)


def in_print(results: Results) -> dict[tuple[str, ...], str]:
    """The printed numbers, corrected where there is a correction, by `COORDINATES` in our names."""
    if not results.published:
        return {}
    table = join_printed_numbers(results)
    return {
        (entry["row"], *column_of(entry)): entry["corrected"] or entry["value"]
        for entry in table[table["data_key"].notna() & table["heterogeneity_key"].notna()].to_dict("records")
    }


def comparable(results: Results, printed: Mapping[tuple[str, ...], str]) -> pd.DataFrame:
    """`measured.over_seeds` for accuracy and the metrics that are `printed`."""
    table = measured.over_seeds(measured.by_seed(results))
    index = table.index.to_frame()
    return table[index["metric"].isin({ACCURACY, *(metric for *_, metric in printed)})]


def in_several(results: Results, numbers: Mapping[str, pd.DataFrame]) -> list[tuple[str, str, str, str]]:
    """The columns of `results` that at least two scales have, in its order."""
    tables = [table.reset_index()[measured.PRINTED_COLUMN].drop_duplicates() for table in numbers.values()]
    columns = pd.concat(tables)
    columns = columns[columns.duplicated() & columns.set_index(["data", "heterogeneity"]).index.isin(results.columns)]
    columns = columns.drop_duplicates().rename(columns={name: f"{name}_key" for name in measured.PRINTED_COLUMN[:3]})
    return ordered(results, columns)


def rows_of(
    studies: Sequence[Results], numbers: Mapping[str, pd.DataFrame], columns_shown: list[tuple[str, str, str, str]]
) -> list[str]:
    """The rows that any scale has in these columns, in the order of the first study."""
    order = [name for results in studies for name in results.names.values()]
    there = {row: None for table in numbers.values() for row, *column in table.index if tuple(column) in columns_shown}
    return [row for row in dict.fromkeys([*order, *there]) if row in there]


def mean_entry(entry: Mapping[str, float] | None, seeds: int, metric: str) -> Entry:
    """A mean with its spread over seeds, and over how many where some are missing."""
    if entry is None:
        return Entry()
    some = f" ({counted(int(entry['seeds']), 'seed')})" if entry["seeds"] < seeds else ""
    return Entry(our_number(entry, metric) + some)


def caption(results: Results, scales: Mapping[str, Results]) -> str:
    """What stands beside what, and in which settings the scales differ."""
    source = f" ({results.study.source})" if results.study.source else ""
    settings = [
        f"{name}: {listing(f'{value} ({where})' for value, where in values)}"
        for name, values in compare_settings(scales)[1]
        if name not in NAMED_ELSEWHERE
    ]
    sentences = [
        f"{results.study.title}: numbers that the paper prints{source}, and beside them every scale that has results.",
        "Mean ± sample standard deviation over seeds; rounds: median.",
        *([f"The scales differ in {'; '.join(settings)}."] if settings else []),
    ]
    return " ".join(sentences)
