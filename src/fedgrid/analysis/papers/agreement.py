"""How far two orders of the same rows agree: the paper's and ours, two of our seeds, or two papers."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, norm, rankdata

from fedgrid.analysis.papers.measured import PRINTED_COLUMN, by_seed
from fedgrid.analysis.papers.published import column_of, metric_words, number, ordered
from fedgrid.analysis.prose import captions
from fedgrid.analysis.scores.results import DASH, Results
from fedgrid.analysis.tables.common.grid import Entry, Grid
from fedgrid.analysis.tables.common.pivot import AVERAGED, column_name

FEWEST = 5
"""Rows from which on there is an interval."""
FEWEST_ROWS = 3
"""Rows from which on the order of a column counts in a mean."""
COVERED = 0.95
DIGITS = 9
"""Decimals that tell two numbers apart: what differs by less differs by rounding."""


class Agreement(NamedTuple):
    """Means of Kendall's τ over columns of accuracies, each by its pairs of rows; NaN where there is none."""

    columns: int
    tau: float
    "To the printed numbers."
    columns_of_several: int
    "Columns with several seeds."
    tau_of_several: float
    "To the printed numbers, over these."
    between_seeds: float
    "Between one of our seeds and the mean of the others, over these."


def tau(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's τ-b of two rows of numbers [n]; NaN for fewer than two, or where one has no order at all."""
    if len(a) < 2:
        return float("nan")
    return float(kendalltau(*(rankdata(np.round(values, DIGITS)) for values in (a, b))).statistic)


def interval(value: float, n: int) -> tuple[float, float]:
    """Limits of τ over a population of rows of which `n` were drawn; NaN for fewer than `FEWEST`.

    Fisher's transformation with a variance as by Fieller, Hartley and Pearson (1957), whose interval is too narrow for
    few rows and strong agreement, as that of a bootstrap is, which collapses at τ = 1. So their 0.437 / (n − 4) is
    0.6 / (n − 4), and τ is first moved towards zero by its 2n-th part: for 5 to 24 rows of normal numbers with any
    correlation it then covers the true τ in 94 % of samples or more. The limits always enclose the observed τ.
    """
    if n < FEWEST or np.isnan(value):
        return float("nan"), float("nan")
    half = norm.ppf((1 + COVERED) / 2) * np.sqrt(0.6 / (n - 4))
    middle = np.arctanh(value * (1 - 1 / (2 * n)))
    return min(value, float(np.tanh(middle - half))), max(value, float(np.tanh(middle + half)))


def agreement(results: Results, table: pd.DataFrame) -> tuple[pd.DataFrame, Grid]:
    """Of each column of printed numbers: τ between printed and ours, its interval, and τ between our own seeds.

    `table` is that of `published.join_printed_numbers`. The row Averaged does not count. `between_seeds` is that of
    each seed to the mean of the others, over the same rows: about what a paper that agreed as well as one more of our
    seeds would reach.
    """
    joined = table[(table["unjoined"] == "") & (table["row"] != AVERAGED) & table["ours"].notna()]
    columns_of_entries = list(map(column_of, joined.to_dict("records")))
    seeds = by_seed(results).set_index(PRINTED_COLUMN).sort_index()
    entries = []
    for column in ordered(results, joined):
        common = joined[[other == column for other in columns_of_entries]].drop_duplicates("row").set_index("row")
        value = tau(common["number"].to_list(), common["ours"].to_list())
        ours = seeds.loc[[column]]
        scores = ours[ours["row"].isin(common.index)].pivot(index="row", columns="seed", values="value")
        entries.append((*column, len(common), value, *interval(value, len(common)), between_seeds(scores)))
    columns = [*PRINTED_COLUMN, "rows", "tau", "low", "high", "between_seeds"]
    numbers = pd.DataFrame(entries, columns=columns)
    rows = [(name_of(results, entry), column_entries(entry)) for entry in numbers.to_dict("records")]
    header = [[("Rows", 1), ("Kendall’s τ", 1), (f"{100 * COVERED:g} % interval", 1), ("τ between our seeds", 1)]]
    return numbers, Grid(caption(results), "Column", header, rows)


def between_seeds(scores: pd.DataFrame) -> float:
    """The mean of τ between each seed and the mean of the others; `scores` is [row, seed]. NaN for one seed."""
    correlations = []
    for seed in scores.columns:
        both = pd.DataFrame({"seed": scores[seed], "others": scores.drop(columns=seed).mean(axis=1)}).dropna()
        correlations.append(tau(both["seed"].to_list(), both["others"].to_list()))
    known = [value for value in correlations if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def by_pairs(columns: pd.DataFrame, value: str) -> float:
    """The mean of a `value` over columns that have it, each by the n·(n − 1)/2 pairs of its n `rows`; NaN for none.

    The τ of two rows is 1 or −1, and so counts little.
    """
    known = columns[columns[value].notna()].astype({"rows": float, value: float})
    pairs = known["rows"] * (known["rows"] - 1) / 2
    return float((pairs * known[value]).sum() / pairs.sum()) if len(known) else float("nan")


def averaged(columns: pd.DataFrame) -> Agreement:
    """The means over the `columns` of `agreement` that are of accuracies and have at least `FEWEST_ROWS` rows."""
    counts = (columns["metric"] == "accuracy") & columns["tau"].notna() & (columns["rows"] >= FEWEST_ROWS)
    columns = columns[counts]
    several = columns[columns["between_seeds"].notna()]
    return Agreement(
        columns=len(columns),
        tau=by_pairs(columns, "tau"),
        columns_of_several=len(several),
        tau_of_several=by_pairs(several, "tau"),
        between_seeds=by_pairs(several, "between_seeds"),
    )


def name_of(results: Results, entry: Mapping[str, str]) -> str:
    """The name of a column of printed numbers."""
    column = column_name(results, entry["data"], entry["heterogeneity"], entry["domain"])
    return ", ".join(filter(None, [column, metric_words(results, entry["metric"])]))


def column_entries(entry: Mapping[str, float]) -> list[Entry]:
    """The printed values of one column."""
    values = str(entry["rows"]), text(entry["tau"]), limits_text(entry), text(entry["between_seeds"])
    return list(map(Entry, values))


def limits_text(entry: Mapping[str, float]) -> str:
    """The interval of a τ."""
    return DASH if np.isnan(entry["low"]) else f"{text(entry['low'])} to {text(entry['high'])}"


def text(value: float) -> str:
    """A τ with two decimals."""
    return DASH if np.isnan(value) else f"{value:.2f}".replace("-", "−")


def caption(results: Results) -> str:
    """What the numbers are."""
    return (
        f"{captions.lead(results)}: agreement of the order of rows, Kendall’s τ-b (1: the same order, 0: none, −1: the "
        f"opposite one) between printed numbers and ours, over the rows that have both, without {AVERAGED}. The "
        f"interval says what other rows might have given (Fisher’s transformation, widened for few rows; from {FEWEST} "
        "rows on). τ between our seeds: of each seed to the mean of the others, over the same rows. A paper that "
        "agreed as well as one more of our seeds would reach about this value, so where it is low, τ says little."
    )


def between_papers(papers: Mapping[str, Sequence[Mapping[str, str]]]) -> pd.DataFrame:
    """τ between what two papers print: one row per pair of papers and column that both have.

    `papers` is a paper's name → its printed numbers. A column is data, heterogeneity and domain, and of accuracy alone;
    it counts from two common rows on. Where a paper prints a number several times, the first counts. Columns: `paper`,
    `other`, the column's three names, `rows`, `equal` (number of rows with the same number), `tau`, `low`, `high`.
    """
    printed = {name: accuracies(numbers) for name, numbers in papers.items()}
    entries = []
    for (name, first), (other, second) in combinations(printed.items(), 2):
        for column in first:
            rows = [row for row in first[column] if row in second.get(column, {})]
            if len(rows) < 2:
                continue
            a, b = ([numbers[column][row] for row in rows] for numbers in (first, second))
            value = tau(a, b)
            equal = sum(x == y for x, y in zip(a, b, strict=True))
            entries.append((name, other, *column, len(rows), equal, value, *interval(value, len(rows))))
    names = ["paper", "other", *PRINTED_COLUMN[:3], "rows", "equal", "tau", "low", "high"]
    return pd.DataFrame(entries, columns=names)


def accuracies(numbers: Sequence[Mapping[str, str]]) -> dict[tuple[str, str, str], dict[str, float]]:
    """Column → row → accuracy that a paper prints, without the row Averaged."""
    by_column: dict[tuple[str, str, str], dict[str, float]] = {}
    for entry in numbers:
        value = number(entry)
        if entry["metric"] == "accuracy" and entry["row"] != AVERAGED and not np.isnan(value):
            column = entry["data"], entry["heterogeneity"], entry["domain"]
            by_column.setdefault(column, {}).setdefault(entry["row"], value)
    return by_column
