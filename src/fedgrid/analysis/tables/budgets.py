"""Whether rows had equal budgets: tries and training images of their searches, and training images of the table."""

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.scores.budgets import COLUMNS, budgets
from fedgrid.analysis.scores.results import DASH, Results
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table

HEADER = [
    [("Search", 3), ("Table", 2)],
    [(text, 1) for text in ("Points a column", "Cells", "Training images", "Cells", "Training images")],
]


class Options(TableOptions):
    """There is nothing to choose."""


def make_table(results: Results, options: Options) -> Table:
    """One row per method, as `scores.budgets` counts."""
    table = budgets(results)
    rows = [
        (results.names[entry["label"]], [Entry(f"{entry[name]:,.0f}" if entry[name] else DASH) for name in COLUMNS[1:]])
        for entry in table.to_dict("records")
    ]
    return table, Grid(caption(results, table), "Method", HEADER, rows)


def caption(results: Results, table: pd.DataFrame) -> str:
    """What is counted, and whether all rows were given the same."""
    sentences = [
        f"{captions.lead(results)}: what each row was given.",
        "Training images: client updates times images, each image as often as a gradient is taken at it by the formula "
        "of the method's work, over all rounds, clients, seeds, data sets and kinds of heterogeneity.",
        "A cell of a later rung that goes on from an earlier one counts its further rounds.",
        _equality("points", table["points"]),
        _equality("training images of the search", table["images_search"]),
    ]
    return " ".join(sentences)


def _equality(what: str, numbers: pd.Series) -> str:
    low, high = numbers.min(), numbers.max()
    if low == high:
        return f"All rows were given the same number of {what}."
    return f"Rows were not given the same number of {what}: {low:,.0f} to {high:,.0f}."
