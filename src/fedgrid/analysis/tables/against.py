"""One row against every other: by how much it is ahead of each, and whether the seeds support that."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.phrases import signed
from fedgrid.analysis.scores.comparisons import FEWEST_SEEDS, IMAGES, LEVEL, Scores
from fedgrid.analysis.scores.domains import EVERY, columns
from fedgrid.analysis.scores.leads import lead
from fedgrid.analysis.scores.multiple import holm
from fedgrid.analysis.scores.results import Results, choose
from fedgrid.analysis.scores.summary import cell_scores, scores_by_column, summary
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table
from fedgrid.analysis.tables.common.pivot import header_of

Pair = tuple[str, str]
"""A row and another one, by label."""
PLACE = ("label", "against", "data", "heterogeneity")
HEADERS = ["Difference (points)", f"{100 * (1 - LEVEL):g} % CI", "p", "Seeds ahead"]


@dataclass(frozen=True)
class Options(TableOptions):
    """What a study may say of it."""

    row: str = ""
    "The row that is compared; by default every row of a method in a file of the user's own."


def make_table(results: Results, options: Options) -> Table:
    """The differences of a row and each other one, within every column; `UserError` for an unknown row.

    Columns: `label` and `against`; `difference`, with `low` and `high`, its interval; `p_value` of this difference
    alone, and `p_adjusted` for the number of its column's rows; `common` seeds, and on how many of them the row is
    `ahead`. NaN where one of both has no score, and of p-values where nothing can be tested.
    """
    own = [choose(options.row, [*results.names], "row")] if options.row else results.own
    pairs = [(label, other) for label in own for other in results.names if other != label]
    by_column = scores_by_column(results, cell_scores(results), summary(results))
    entries = {
        (*pair, *column): numbers
        for column in results.columns
        for label in own
        for pair, numbers in differences(by_column.get((*column, EVERY)), [p for p in pairs if p[0] == label]).items()
    }
    table = pd.DataFrame([dict(zip(PLACE, place, strict=True)) | numbers for place, numbers in entries.items()])
    rows = [
        (
            pair_name(results, *pair, alone=len(own) == 1),
            [text for column in results.columns for text in printed_entries(entries[*pair, *column])],
        )
        for pair in pairs
    ]
    header = header_of(results, columns(results, False), HEADERS)
    return table, Grid(caption(results, own), "Against" if len(own) == 1 else "Pair", header, rows)


def differences(scores: Scores | None, pairs: Sequence[Pair]) -> dict[Pair, dict[str, float]]:
    """What the table says of the pairs of one row in a column, whose `scores` may lack either row of a pair."""
    numbers = [difference(scores, *pair) for pair in pairs]
    adjusted = holm([one["p_value"] for one in numbers])
    return {pair: {**one, "p_adjusted": p} for pair, one, p in zip(pairs, numbers, adjusted, strict=True)}


def difference(scores: Scores | None, label: str, other: str) -> dict[str, float]:
    """The same of one pair, before its p-value is adjusted."""
    if scores is None or not {label, other} <= {*scores.values.index}:
        return dict.fromkeys(("difference", "low", "high", "p_value", "common", "ahead"), nan)
    numbers = lead(scores.between(label, other))
    untested = numbers["common"] < FEWEST_SEEDS or abs(numbers["images"]) <= IMAGES or isnan(numbers["low"])
    return {
        **{name: numbers[name] for name in ("difference", "low", "high")},
        "p_value": nan if untested else numbers["p_value"],
        "common": numbers["common"],
        "ahead": float((scores.values.loc[label] > scores.values.loc[other]).sum()),
    }


def pair_name(results: Results, label: str, other: str, alone: bool) -> str:
    """What a line of the table is called: the other row, with the row itself where there are several."""
    return results.names[other] if alone else f"{results.names[label]} − {results.names[other]}"


def printed_entries(entry: dict[str, Any]) -> list[Entry]:
    """The printed numbers of one pair in one column; bold where the difference is significant."""
    if isnan(entry["difference"]):
        return [Entry() for _ in HEADERS]
    plus = "+" if entry["difference"] > 0 else ""
    difference = Entry(f"{plus}{signed(entry['difference'])}", bold=entry["p_adjusted"] <= LEVEL)
    interval = Entry() if isnan(entry["low"]) else Entry(f"{signed(entry['low'])} to {signed(entry['high'])}")
    p = Entry() if isnan(entry["p_adjusted"]) else Entry(f"{entry['p_adjusted']:.2g}")
    return [difference, interval, p, Entry(f"{entry['ahead']:.0f} of {entry['common']:.0f}")]


def caption(results: Results, own: Sequence[str]) -> str:
    """What the numbers are."""
    name = results.names[own[0]] if len(own) == 1 else "each row of one's own"
    sentences = [
        f"{captions.lead(results)}: {name} less each other row, in points of accuracy over {captions.seeds(results)}.",
        captions.scored_at(results, results.finished),
        f"{HEADERS[1]}: of this difference alone. p: of a two-sided moderated t-test, paired by seed, adjusted for the "
        "number of rows it is compared with (Holm 1979). A dash stands for what cannot be tested: fewer than "
        f"{FEWEST_SEEDS} common seeds, or no more than {IMAGES} test images per seed. Bold: p ≤ {LEVEL:g}.",
    ]
    return " ".join(sentences)
