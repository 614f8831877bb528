"""Accuracy against what clients have sent and received so far."""

from dataclasses import replace

import pandas as pd

from fedgrid.analysis.figures.common.lines import banded
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.figures.curves import ACCURACY, POINT, draw_lines, round_means
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.scores.points import named
from fedgrid.analysis.scores.results import CELL, Results

TRAFFIC = replace(
    ACCURACY,
    title="Accuracy against traffic",
    x="Sent and received so far (MiB per client)",
    against="the bytes that a client has sent and received by then (as measured, mean over all clients)",
    decades="x",
    needs="traffic",
)


class Options(FigureOptions):
    """There is nothing to choose."""

    of_lines = True


def draw_figure(results: Results, options: Options, data: str, narrow: bool = False, colours: bool = False) -> Drawn:
    """Panels and lines as in `curves`, with bytes in place of rounds; return the figure, its title and its caption.

    A point is an evaluated round; of several seeds, its bytes are their mean. A method whose clients send nothing has
    no line. `colours` as in `emphasis`. Raises `UserError` when the study has no such data set.
    """
    means = round_means(results, data).merge(sent(results), on=[*CELL, "round"], how="left").fillna({"mib": 0.0})
    table = banded(means.assign(value=means["value"] * TRAFFIC.scale), POINT)
    table = table.merge(means.groupby(POINT, as_index=False)["mib"].mean(), on=POINT).rename(columns={"mib": "x"})
    return draw_lines(results, data, TRAFFIC, table[table["x"] > 0], "", narrow, colours)


def sent(results: Results) -> pd.DataFrame:
    """One row per cell and round with the `mib` that a client has sent and received up to its end, mean over clients.

    Clients that sat a round out count with nothing.
    """
    rows = named(results.rows[results.rows["metric"].isin(["bytes_up", "bytes_down"]) & (results.rows["round"] > 0)])
    clients = results.rows[results.rows["metric"] == "test_samples"]
    clients = named(clients).groupby(CELL)["client"].nunique()
    totals = rows.groupby([*CELL, "round"])["value"].sum()
    means = totals / clients.reindex(totals.index.droplevel("round")).to_numpy() / 2**20
    return means.groupby(CELL).cumsum().rename("mib").reset_index()
