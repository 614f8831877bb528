"""FedCoSR's trust τ in what others share, over the rounds: how much its local aggregation still blends."""

import pandas as pd

from fedgrid.analysis.figures.common.lines import NOTHING, number_rounds, panelled
from fedgrid.analysis.figures.common.style import Drawn, Undrawn
from fedgrid.analysis.figures.curves import ROUNDS, entries_of
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose import captions, figure_captions
from fedgrid.analysis.scores.points import named
from fedgrid.analysis.scores.results import Results

QUANTITY = "trust"
"""Under this name methods record it, of every client that takes part in a round."""
AXIS = "τ (weight of the own extractor)"
MIDDLE = (0.1, 0.9)
"""The band covers the clients between these quantiles."""


class Options(FigureOptions):
    """There is nothing to choose."""

    of_lines = True


def draw_figure(results: Results, options: Options, data: str, narrow: bool = False, colours: bool = False) -> Drawn:
    """One panel per heterogeneity of `data`, one line per row that records it; return figure, title and caption.

    Lines are means over the clients that take part, of all seeds; bands hold the middle four fifths of these clients.
    Rows are few, so all have `colours`. Raises `UserError` when the study has no such data set, and `Undrawn` when no
    method on it records trust.
    """
    panels = results.panel_titles(data)
    rows = named(results.rows[(results.rows["metric"] == QUANTITY) & (results.rows["data"] == data)])
    if rows.empty:
        raise Undrawn("No method records a trust τ here.")
    by_round = rows.groupby(["label", "heterogeneity", "round"])["value"]
    low, high = (by_round.quantile(q) for q in MIDDLE)
    table = pd.DataFrame({"mean": by_round.mean(), "low": low, "high": high}).reset_index()
    table = table.rename(columns={"heterogeneity": "panel", "round": "x"})
    figure, axes = panelled(table, panels, results.names, ROUNDS, AXIS, narrow)
    number_rounds(axes.values())
    next(iter(axes.values())).set_ylim(0, 1.02)
    return figure, f"Trust on {results.title(data)}", caption(results, data, list(table["label"].unique()))


def caption(results: Results, data: str, labels: list[str]) -> str:
    """What the lines are."""
    entries = entries_of(results, data)
    bands = f"; bands: the middle {MIDDLE[1] - MIDDLE[0]:.0%} of them" if NOTHING.has_bands(labels) else ""
    sentences = [
        f"{captions.lead(results)}: the trust τ = exp(−γ·L_Reg) of FedCoSR's Eq. 7 on {results.title(data)}. A client "
        "starts a round from τ of its own extractor and 1 − τ of the global one, so at τ = 1 blending has stopped.",
        f"Lines: mean over the clients that take part in a round, over {captions.seeds(results)}{bands}.",
        *figure_captions.missing_cells(results, entries[entries["label"].isin(labels)]),
    ]
    return " ".join(sentences)
