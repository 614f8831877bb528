"""Who gains and who loses by taking part: each client's accuracy less that of the same client under Local."""

import pandas as pd

from fedgrid.analysis.figures.common.lines import panelled
from fedgrid.analysis.figures.common.palette import GREY
from fedgrid.analysis.figures.common.style import Drawn, Undrawn
from fedgrid.analysis.figures.curves import entries_of
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose import captions, figure_captions
from fedgrid.analysis.prose.phrases import decimals
from fedgrid.analysis.scores.comparisons import ROUNDING
from fedgrid.analysis.scores.fairness import gains
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import client_scores


class Options(FigureOptions):
    """There is nothing to choose."""

    of_lines = True


def draw_figure(results: Results, options: Options, data: str, narrow: bool = False, colours: bool = False) -> Drawn:
    """One panel a heterogeneity of `data`, one line a row: gains of the clients of all seeds, from the lowest up.

    `narrow` as in `lines`; all rows are in colour. Raises `Undrawn` where no client can be compared with Local, and
    `UserError` when the study has no such data set.
    """
    entries = entries_of(results, data)
    clients = gains(results, client_scores(results)[0])
    clients = clients[(clients["data"] == data) & clients["gain"].notna()]
    if clients.empty:
        raise Undrawn("No client can be compared with itself under Local.")
    panels, names = results.panel_titles(data), results.names
    table = in_order(clients)
    across, down = "Clients, from the largest loss to the largest gain (%)", "Accuracy less that under Local (points)"
    figure, axes = panelled(table, panels, names, across, down, narrow)
    for ax in axes.values():
        ax.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    sentences = [
        f"{captions.lead(results)}: the accuracy of each client less that of the same client under Local on "
        f"{results.title(data)}, clients of {captions.seeds(results)} in the order of that difference.",
        *(losses(clients[clients["heterogeneity"] == panel], title, names) for panel, title in panels.items()),
        *figure_captions.left_out(results, entries),
    ]
    caption = figure_captions.in_two(sentences, [figure_captions.scored_on(results, data)])
    return figure, f"Who gains by taking part on {results.title(data)}", caption


def in_order(clients: pd.DataFrame) -> pd.DataFrame:
    """The points of lines, as `lines.panelled` takes them: a client's percentile, and its gain in points."""
    ordered = clients.sort_values("gain", kind="stable")
    groups = ordered.groupby(["label", "heterogeneity"], sort=False)
    percentile = 100 * (groups.cumcount() + 0.5) / groups["gain"].transform("size")
    points = 100 * ordered["gain"]
    return ordered.assign(x=percentile, mean=points, low=points, high=points).rename(columns={"heterogeneity": "panel"})


def losses(clients: pd.DataFrame, title: str, names: dict[str, str]) -> str:
    """How many clients of each row lose, and how much these lose on average."""
    texts = []
    for label, name in names.items():
        of_row = clients.loc[clients["label"] == label, "gain"]
        behind = of_row[of_row < -ROUNDING]
        if len(behind):
            points = decimals(-100 * float(behind.mean()))
            texts.append(f"{name} {100 * len(behind) / len(of_row):.0f} %, {points}")
    return f"Clients that lose, and by how many points on average, {title}: {'; '.join(texts) or 'none'}."
