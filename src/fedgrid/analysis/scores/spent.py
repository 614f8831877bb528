"""What a cell has spent by each of its rounds: bytes that travelled, and passes over training images."""

import pandas as pd

from fedgrid.analysis.scores.points import named
from fedgrid.analysis.scores.results import CELL, Results
from fedgrid.analysis.scores.settings import resolved_settings
from fedgrid.grid.costs.formulas import passes

CLIENT = [*CELL, "client"]
BYTES = ["bytes_up", "bytes_down"]


def cumulative_costs(results: Results) -> pd.DataFrame:
    """One row a cell and round with participants: `mib` and `passes` until then, over all clients.

    `mib` is what went up and down. `passes` are forward-backward passes over the training images of all clients: each
    participant's by the formula of its method's `work`, of a straggler the share of its steps that it took.
    """
    rounds = results.rows[results.rows["metric"].isin([*BYTES, "work"]) & (results.rows["round"] > 0)]
    wide = named(rounds).pivot_table(index=[*CLIENT, "round"], columns="metric", values="value").reset_index()
    wide = wide.reindex(columns=[*CLIENT, "round", *BYTES, "work"])
    once = passes_of_clients(results)
    wide = wide.merge(once, on=CLIENT)
    wide["mib"] = (wide["bytes_up"] + wide["bytes_down"]) / 2**20
    wide["passes"] = wide["share"] * wide["once"] * wide["work"].fillna(1.0)
    return wide.groupby([*CELL, "round"])[["mib", "passes"]].sum().groupby(CELL).cumsum().reset_index()


def passes_of_clients(results: Results) -> pd.DataFrame:
    """One row a cell and client with training images: its `share` of all, and the passes of a round, `once`."""
    sizes = named(results.rows[(results.rows["metric"] == "train_samples") & (results.rows["value"] > 0)])
    sizes = sizes.assign(share=sizes["value"] / sizes.groupby(CELL)["value"].transform("sum"))
    by_cell, parts = dict(iter(sizes.groupby(CELL))), []
    for cell in (cell for cell in results.finished if cell.table_position in by_cell):
        training, hyperparameters = resolved_settings(results, cell.label, cell.column)
        work, steps = results.study.methods[cell.label].work, training["local_steps"]
        of_cell = by_cell[cell.table_position]
        batches = of_cell["value"].clip(upper=training["batch_size"]) / of_cell["value"]
        once = [
            passes(work, hyperparameters, training["local_epochs"] if steps is None else steps * batch, batch)
            for batch in batches
        ]
        parts.append(of_cell.assign(once=once)[[*CLIENT, "share", "once"]])
    return pd.concat(parts) if parts else pd.DataFrame(columns=[*CLIENT, "share", "once"])
