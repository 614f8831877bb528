"""What the methods cost: time, memory and traffic."""

from typing import Any

import pandas as pd

from fedgrid.analysis.prose import captions
from fedgrid.analysis.scores.results import CELL, DASH, ROW, Results
from fedgrid.analysis.tables.grid import Entry, Grid

GROUP = ["label", "data"]
PARTS = ["train", "server", "evaluate"]
MEMORIES = ["peak_memory", "peak_device_memory"]
SPENT = ["seconds", *(f"seconds_{part}" for part in PARTS), *(f"{memory}_mib" for memory in MEMORIES)]
SHOWN = {
    "seconds": ("Time per cell (s)", 1),
    "peak_memory_mib": ("Peak memory (MiB)", 1),
    "kib_up": ("Up (KiB per client and round)", 1),
    "kib_down": ("Down (KiB per client and round)", 1),
}
"""Column → its printed header and number of decimals."""
WORK = "Passes a round"
"""Header of the column of formulas, which are the methods' own and the same for every data set."""


def costs(results: Results) -> pd.DataFrame:
    """One row per label × data set, in study order, over the cells with status "ok".

    Columns: `cells` (count), `seconds` (median wall-clock of a cell), its parts `seconds_train`, `seconds_server` and
    `seconds_evaluate` (medians), `peak_memory_mib` and `peak_device_memory_mib` (medians; the latter is an
    accelerator's own memory), `kib_up` and `kib_down` (mean over clients and the recorded rounds after round 0), `work`
    (forward-backward passes over a client's images in a round, a formula). NaN where no cell came to its end.
    """
    good = [cell for cell in results.cells if cell["status"] == "ok"]
    cells = pd.DataFrame([spent(cell) for cell in good], columns=[*GROUP, *SPENT]).groupby(GROUP)
    index = pd.MultiIndex.from_product([results.names, dict.fromkeys(data for data, _ in results.columns)], names=GROUP)
    table = cells.median().join(mean_traffic(results, good)).reindex(index)
    table.insert(0, "cells", cells.size().reindex(index, fill_value=0))
    table = table.reset_index()
    return table.assign(work=[results.study["methods"][label]["work"] for label in table["label"]])


def spent(cell: dict[str, Any]) -> dict[str, Any]:
    """Time and memory of one cell; a part that a cell does not name did not take place."""
    costs = cell["costs"]
    seconds = [costs["seconds"].get(part, 0.0) for part in PARTS]
    memory = [costs.get(f"{name}_bytes", 0) / 2**20 for name in MEMORIES]
    return {name: cell[name] for name in GROUP} | dict(
        zip(SPENT, [costs["seconds"]["total"], *seconds, *memory], strict=True)
    )


def mean_traffic(results: Results, cells: list[dict[str, Any]]) -> pd.DataFrame:
    """Mean KiB that a client sends (`kib_up`) and receives (`kib_down`) in a round, by label and data set."""
    rows = results.rows[(results.rows["round"] > 0) & results.rows["metric"].isin(["bytes_up", "bytes_down"])]
    rows = rows.astype({name: "str" for name in [*ROW, "metric"]})
    rows = rows.merge(pd.DataFrame(cells, columns=CELL), on=CELL)
    means = rows.pivot_table(index=GROUP, columns="metric", values="value", aggfunc="mean") / 2**10
    return means.reindex(columns=["bytes_up", "bytes_down"]).set_axis(["kib_up", "kib_down"], axis=1)


def costs_grid(results: Results, table: pd.DataFrame) -> Grid:
    """`costs` as a table to print: methods as rows, data sets as column groups, and the work of a round at the end."""
    groups = list(dict.fromkeys(table["data"]))
    by_entry = table.set_index(GROUP)
    rows = [
        (
            name,
            [
                figure(by_entry.loc[(label, data), column], decimals)
                for data in groups
                for column, (_, decimals) in SHOWN.items()
            ]
            + [Entry(results.study["methods"][label]["work"] or DASH)],
        )
        for label, name in results.names.items()
    ]
    header = [
        [(results.title(data), len(SHOWN)) for data in groups] + [("", 1)],
        [(text, 1) for _ in groups for text, _ in SHOWN.values()] + [(WORK, 1)],
    ]
    return Grid(captions.costs_table(results), "Method", header, rows)


def figure(value: float, decimals: int) -> Entry:
    """One number, or a dash for NaN."""
    return Entry(DASH if pd.isna(value) else f"{value:,.{decimals}f}")
