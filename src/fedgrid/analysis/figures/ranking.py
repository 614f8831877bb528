"""The rows of a column from the best to the last, with lines through those that the seeds cannot tell apart."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedgrid.analysis.figures.common.palette import COLOURS, GREY
from fedgrid.analysis.figures.common.style import WHISKERS, Drawn, Undrawn
from fedgrid.analysis.figures.curves import entries_of
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose import captions, figure_captions
from fedgrid.analysis.scores.ranking import Ranking, ranking
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import cell_scores

WIDTH, NAMES, APART = 4.4, 1.3, 0.12
"""Of a panel, of the names on its left, and from the line of one group to the next, in inches."""
STEP, MARGIN = 0.19, 1.1
"""From one row to the next, and above and below all rows, in inches."""
GLOBAL = "accuracy_global"
DOT: dict[str, Any] = {"ls": "", "marker": "o", "ms": 4.5, "mec": COLOURS[0]}
OF_GROUP: dict[str, Any] = {"color": GREY, "lw": 1.0, "marker": "o", "ms": 2.4}


class Options(FigureOptions):
    """There is nothing to choose."""


def draw_figure(results: Results, options: Options, data: str) -> Drawn:
    """One panel a heterogeneity of `data`, one dot a row; return the figure, its title and its caption.

    Raises `UserError` when the study has no such data set, and `Undrawn` where no row has a score.
    """
    rankings = {name: ranking(results, (data, name)) for name in results.heterogeneities(data)}
    rows = max(len(ranked.entries) for ranked in rankings.values())
    if not rows:
        raise Undrawn("Nothing is drawn, because no row has a score.")
    widths = [width for ranked in rankings.values() for width in (WIDTH, APART * (len(ranked.groups) + 1))]
    figure = Figure(figsize=(sum(widths) + NAMES * len(rankings), STEP * rows + MARGIN), layout="constrained")
    scores = cell_scores(results)
    axes = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
    for ax, beside, (name, ranked) in zip(axes[::2], axes[1::2], rankings.items(), strict=True):
        draw_panel(ax, results, ranked, scores[(scores["data"] == data) & (scores["heterogeneity"] == name)])
        draw_groups(beside, ranked, ax.get_ylim())
        ax.set_title(results.heterogeneity_title(name), loc="left")
    figure.legend(handles=handles(rankings.values()), loc="outside lower center", ncols=2)
    return figure, f"Methods in order on {results.title(data)}", caption(results, data, rankings)


def draw_panel(ax: Axes, results: Results, ranked: Ranking, scores: pd.DataFrame) -> None:
    """Draw the rows from the top down, each with the lowest and the highest of its cells' `scores`."""
    rows = list(ranked.entries.index)
    for place, (label, entry) in enumerate(ranked.entries.iterrows()):
        seeds = 100 * scores.loc[scores["label"] == label, "accuracy"]
        mean = 100 * entry["accuracy"]
        reach = [[mean - seeds.min()], [seeds.max() - mean]]
        ax.errorbar(mean, place, xerr=reach, elinewidth=0.8, zorder=2, **WHISKERS)
        ax.plot(mean, place, mfc=filling(entry["score"] == GLOBAL), zorder=3, **DOT)
    ax.set(yticks=range(len(rows)), yticklabels=[results.names[label] for label in rows], ylim=(len(rows) - 0.4, -0.6))
    for text, label in zip(ax.get_yticklabels(), rows, strict=True):
        text.set_fontweight("bold" if label in results.own else "normal")
    ax.set_xlabel("Test accuracy (%)")


def draw_groups(ax: Axes, ranked: Ranking, rows: tuple[float, float]) -> None:
    """Draw a line for each group, with a dot at each of its rows; `rows` is the reach of the panel beside it."""
    order = list(ranked.entries.index)
    for number, group in enumerate(ranked.groups):
        ax.plot([number] * len(group), [order.index(label) for label in group], **OF_GROUP)
    ax.set(xlim=(-1, len(ranked.groups)), ylim=rows)
    ax.set_axis_off()


def filling(is_global: bool) -> str:
    """The colour within a dot: hollow for one model for all clients."""
    return "white" if is_global else COLOURS[0]


def handles(rankings: Iterable[Ranking]) -> list[Line2D]:
    """The legend: which model of a row is scored, as far as there are both kinds."""
    scored = {entry == GLOBAL for ranked in rankings for entry in ranked.entries["score"]}
    texts = {False: "a model of each client's own", True: "one model for all clients"}
    return [Line2D([], [], mfc=filling(kind), label=texts[kind], **DOT) for kind in sorted(scored)]


def caption(results: Results, data: str, rankings: dict[str, Ranking]) -> str:
    """What dots, whiskers and lines are, and how much the seeds can tell."""
    sentences = [
        f"{captions.lead(results)}: rows on {results.title(data)} by accuracy.",
        f"{figure_captions.marks(results, 'Dots')}. Lines on the right join rows that cannot be told apart.",
        *(ranked.sentence() for ranked in rankings.values()),
        *figure_captions.left_out(results, entries_of(results, data)),
    ]
    return figure_captions.in_two(sentences, [figure_captions.scored_on(results, data)])
