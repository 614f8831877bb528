"""Bytes that a client sends and receives in a round: as measured, and by a paper's formula."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.tables.common.grid import Table
from fedgrid.analysis.tables.costs import GROUP, grid_by_data, mean_traffic
from fedgrid.grid.costs.formulas import formula_value
from fedgrid.grid.plan.cell_metadata import Sizes

BYTES = 4
"""Bytes of a parameter."""
SHOWN = {"kib_up": "Up (KiB)", "kib_down": "Down (KiB)", "kib_both": "Both (KiB)", "kib_formula": "Formula (KiB)"}


@dataclass(frozen=True)
class Options(TableOptions):
    """What a study may say of it."""

    formula: Mapping[str, str] = field(default_factory=dict)
    "Name of a row → numbers of parameters up and down together, in the names of `parameter_counts`."


def make_table(results: Results, options: Options) -> Table:
    """KiB up and down per client and round by row and data set, and what the row's formula gives.

    `UserError` where a formula cannot be read.
    """
    sizes = {(cell.label, cell.data): cell.sizes for cell in results.completed if cell.sizes}
    index = pd.MultiIndex.from_product([results.names, dict.fromkeys(data for data, _ in results.columns)], names=GROUP)
    table = mean_traffic(results).reindex(index)
    table["kib_both"] = table["kib_up"] + table["kib_down"]
    table["formula"] = [options.formula.get(results.names[label], "") for label, _ in index]
    table["parameters"] = [
        formula_value(text, parameter_counts(sizes[entry])) if text and entry in sizes else float("nan")
        for entry, text in table["formula"].items()
    ]
    table["kib_formula"] = table["parameters"] * BYTES / 2**10
    table = table.reset_index()
    return table, grid_by_data(results, table, SHOWN, "formula", "Formula", caption(results))


def caption(results: Results) -> str:
    """What the numbers are."""
    return (
        f"{captions.lead(results)}: what a client sends and receives in a round. Up and down: as measured, mean over "
        "clients and the recorded rounds after round 0; what idle clients are sent so that they can be scored is not "
        f"counted. Formula: the paper's numbers of parameters, {BYTES} bytes each, with phi the parameters of the "
        "extractor, pi of the head, theta of both, k features, and omega = k * classes for one representation a class."
    )


def parameter_counts(sizes: Sizes) -> dict[str, int]:
    """The names that a formula may use, from what a cell says of its model.

    `phi` and `pi` are parameters of extractor and head, `theta` of both, `k` the features, `classes` their number, and
    `omega` one representation for each class.
    """
    phi, pi, k, classes = sizes.extractor, sizes.head, sizes.features, sizes.classes
    return {"theta": phi + pi, "phi": phi, "pi": pi, "omega": k * classes, "k": k, "classes": classes}
