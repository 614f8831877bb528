"""Accuracy against what clients have sent and received so far."""

import pandas as pd

from fedgrid.analysis.figures.common import limits
from fedgrid.analysis.figures.common.emphasis import emphasis
from fedgrid.analysis.figures.common.lines import banded, logarithmic, name_ends, panelled, spans_decades
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.figures.curves import ACCURACY, entries_of, round_means
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose import captions, figure_captions
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.points import named
from fedgrid.analysis.scores.results import CELL, Results

WAYS = ["bytes_up", "bytes_down"]
AXIS = "Sent and received so far (MiB per client)"


class Options(FigureOptions):
    """There is nothing to choose."""

    of_lines = True


def draw_figure(results: Results, options: Options, data: str, narrow: bool = False, colours: bool = False) -> Drawn:
    """Panels and lines as in `curves`, with bytes in place of rounds; return the figure, its title and its caption.

    A point is an evaluated round; of several seeds, its bytes are their mean. A method whose clients send nothing has
    no line. `colours` as in `emphasis`. Raises `UserError` when the study has no such data set.
    """
    panels = results.panel_titles(data)
    means = round_means(results, data).merge(sent(results), on=[*CELL, "round"], how="left").fillna({"mib": 0.0})
    keys = ["label", "heterogeneity", "round"]
    table = banded(means.assign(value=means["value"] * ACCURACY.scale), keys)
    table = table.merge(means.groupby(keys, as_index=False)["mib"].mean(), on=keys)
    table = table.rename(columns={"heterogeneity": "panel", "mib": "x"})
    table = table[table["x"] > 0]
    stands_out = emphasis(results, data, set(table["label"]), colours)
    panel_limits = limits.limits(table, panels, True, stands_out.lines)
    y = ACCURACY.axis
    figure, axes = panelled(table, panels, results.names, AXIS, y, narrow, (), stands_out, panel_limits)
    if spans_decades(table.groupby(["label", "panel"])["x"].max()):
        logarithmic(axes[0], "x")
    name_ends(figure, dict(zip(panels, axes, strict=True)), table, results.names, stands_out, narrow)
    about = [*stands_out.sentences(results.names), *limits.sentences(table, panel_limits, results.names)]
    silent = set(means["label"]) - set(table["label"])
    title = f"Accuracy against traffic on {results.title(data)}"
    not_drawn = [name for label, name in results.names.items() if label in silent]
    return figure, title, caption(results, data, not_drawn, about)


def sent(results: Results) -> pd.DataFrame:
    """One row per cell and round with the `mib` that a client has sent and received up to its end, mean over clients.

    Clients that sat a round out count with nothing.
    """
    rows = named(results.rows[results.rows["metric"].isin(WAYS) & (results.rows["round"] > 0)])
    clients = results.rows[results.rows["metric"] == "test_samples"]
    clients = named(clients).groupby(CELL)["client"].nunique()
    totals = rows.groupby([*CELL, "round"])["value"].sum()
    means = totals / clients.reindex(totals.index.droplevel("round")).to_numpy() / 2**20
    return means.groupby(CELL).cumsum().rename("mib").reset_index()


def caption(results: Results, data: str, silent: list[str], about: list[str]) -> str:
    """What the lines are, what there is to say `about` colours and axes, and which lines are not there."""
    entries = entries_of(results, data)
    drawn = {label for label in figure_captions.with_scores(entries) if results.names[label] not in silent}
    sentences = [
        f"{captions.lead(results)}: mean test accuracy over clients, each weighted equally, against the bytes that a "
        f"client has sent and received by then (as measured, mean over all clients) on {results.title(data)}.",
        *figure_captions.sampled(results, data),
        figure_captions.lines(results, drawn),
        *about,
        *([f"Not drawn, for lack of traffic: {listing(silent)}."] if silent else []),
        *figure_captions.left_out(results, entries),
    ]
    return figure_captions.in_two(sentences, [figure_captions.scored_on(results, data)])
