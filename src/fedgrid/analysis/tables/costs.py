"""What the methods cost: time, memory and traffic."""

from collections.abc import Mapping

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.results import CELL, DASH, ROW, Results
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table
from fedgrid.grid.costs.formulas import with_settings

GROUP = ["label", "data"]
SPENT = [
    *("seconds", "seconds_train", "seconds_server", "seconds_evaluate"),
    *("peak_memory_mib", "peak_device_memory_mib"),
]
SHOWN = {
    "seconds": "Time per cell (s)",
    "peak_memory_mib": "Peak memory (MiB)",
    "kib_up": "Up (KiB per client and round)",
    "kib_down": "Down (KiB per client and round)",
}
"""Column → its printed header."""
WORK = "Passes a round"
"""Header of the column of formulas, which are the methods' own and the same for every data set."""


class Options(TableOptions):
    """There is nothing to choose."""


def make_table(results: Results, options: Options) -> Table:
    """What the rows cost: one row per label × data set, in study order, over the cells with status "ok".

    Columns: `cells` (count), `seconds` (median wall-clock of a cell), its parts `seconds_train`, `seconds_server` and
    `seconds_evaluate` (medians), `peak_memory_mib` and `peak_device_memory_mib` (medians; the latter is an
    accelerator's own memory), `kib_up` and `kib_down` (mean over clients and the recorded rounds after round 0), `work`
    (forward-backward passes over a client's images in a round, a formula of E local epochs). NaN where no cell came to
    its end.
    """
    cells = pd.DataFrame(map(cell_costs, results.completed), columns=[*GROUP, *SPENT]).groupby(GROUP)
    index = pd.MultiIndex.from_product([results.names, dict.fromkeys(data for data, _ in results.columns)], names=GROUP)
    table = cells.median().join(mean_traffic(results)).reindex(index)
    table.insert(0, "cells", cells.size().reindex(index, fill_value=0))
    table = table.reset_index()
    rows = [results.study.methods[label] for label in table["label"]]
    table["work"] = [with_settings(row.work, row.settings) for row in rows]
    return table, grid_by_data(results, table, SHOWN, "work", WORK, captions.costs_table(results))


def cell_costs(cell: FinishedCell) -> tuple[str | float, ...]:
    """Row and data set of one cell, and its time and memory as in `SPENT`."""
    seconds = cell.costs.seconds
    parts = [part or 0.0 for part in (seconds.train, seconds.server, seconds.evaluate)]
    memory = [part / 2**20 for part in (cell.costs.peak_memory_bytes, cell.costs.peak_device_memory_bytes)]
    return cell.label, cell.data, seconds.total, *parts, *memory


def mean_traffic(results: Results) -> pd.DataFrame:
    """Mean KiB that a client sends (`kib_up`) and receives (`kib_down`) in a round, by label and data set.

    Over the cells that came to their end.
    """
    rows = results.rows[(results.rows["round"] > 0) & results.rows["metric"].isin(["bytes_up", "bytes_down"])]
    rows = rows.astype({name: "str" for name in [*ROW, "metric"]})
    rows = rows.merge(pd.DataFrame([cell.table_position for cell in results.completed], columns=CELL), on=CELL)
    means = rows.pivot_table(index=GROUP, columns="metric", values="value", aggfunc="mean") / 2**10
    return means.reindex(columns=["bytes_up", "bytes_down"]).set_axis(["kib_up", "kib_down"], axis=1)


def grid_by_data(
    results: Results, table: pd.DataFrame, shown: Mapping[str, str], formula: str, header: str, caption: str
) -> Grid:
    """A table to print: methods as rows, the numbers `shown` for each data set, and a column of formulas at the end.

    `table` has a row per label × data set, and `shown` its columns with their headers.
    """
    groups = list(dict.fromkeys(table["data"]))
    entries = table.set_index(GROUP)
    rows = []
    for label, name in results.names.items():
        numbers = [number(entries.loc[(label, data), column]) for data in groups for column in shown]
        rows.append((name, [*map(Entry, numbers), Entry(entries.loc[(label, groups[0]), formula] or DASH)]))
    levels = [
        [(results.title(data), len(shown)) for data in groups] + [("", 1)],
        [(text, 1) for _ in groups for text in shown.values()] + [(header, 1)],
    ]
    return Grid(caption, "Method", levels, rows)


def number(value: float) -> str:
    """A number with one decimal, or a dash for NaN."""
    return DASH if pd.isna(value) else f"{value:,.1f}"
