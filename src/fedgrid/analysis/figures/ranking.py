"""The rows of a column from the best to the last, with lines through those that the seeds cannot tell apart."""

from collections.abc import Iterable, Sequence

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

WIDTH, STEP, MARGIN = 4.4, 0.19, 1.1
"""Of a panel, from one row to the next, and above and below all rows, in inches."""
FIRST, APART = 1.03, 0.028
"""Where the first line of a group is, and from one to the next, in widths of a panel."""
GLOBAL = "accuracy_global"


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
    groups = max(len(ranked.groups) for ranked in rankings.values())
    size = ((WIDTH * (1.3 + APART * groups)) * len(rankings), STEP * rows + MARGIN)
    figure = Figure(figsize=size, layout="constrained")
    for ax, (name, ranked) in zip(figure.subplots(1, len(rankings), squeeze=False)[0], rankings.items(), strict=True):
        draw_panel(ax, results, ranked)
        ax.set_title(results.heterogeneity_title(name), loc="left")
    figure.legend(handles=handles(rankings.values()), loc="outside lower center", ncols=2)
    return figure, f"Methods in order on {results.title(data)}", caption(results, data, rankings)


def draw_panel(ax: Axes, results: Results, ranked: Ranking) -> None:
    """Draw the rows from the top down, each with its lowest and highest seed, and their groups beside them."""
    scores = cell_scores(results)
    rows = list(ranked.entries.index)
    for place, (label, entry) in enumerate(ranked.entries.iterrows()):
        of_row = scores["label"].eq(label) & scores["heterogeneity"].eq(entry["heterogeneity"])
        seeds = 100 * scores.loc[of_row & scores["data"].eq(entry["data"]), "accuracy"]
        mean = 100 * entry["accuracy"]
        reach = [[mean - seeds.min()], [seeds.max() - mean]]
        ax.errorbar(mean, place, xerr=reach, elinewidth=0.8, zorder=2, **WHISKERS)
        is_global = entry["score"] == GLOBAL
        ax.plot(mean, place, "o", ms=4.5, mec=COLOURS[0], mfc="white" if is_global else COLOURS[0], zorder=3)
    ax.set(yticks=range(len(rows)), yticklabels=[results.names[label] for label in rows], ylim=(len(rows) - 0.4, -0.6))
    for text, label in zip(ax.get_yticklabels(), rows, strict=True):
        text.set_fontweight("bold" if label in results.own else "normal")
    ax.set_xlabel("Test accuracy (%)")
    draw_groups(ax, [[rows.index(label) for label in group] for group in ranked.groups])


def draw_groups(ax: Axes, groups: Iterable[Sequence[int]]) -> None:
    """Draw a line for each group, from its first row to its last, with a dot at each of its rows."""
    for number, places in enumerate(groups):
        across = [FIRST + APART * number] * len(places)
        style = {"color": GREY, "lw": 1.0, "ms": 2.4, "clip_on": False}
        ax.plot(across, places, "-o", transform=ax.get_yaxis_transform(), **style)


def handles(rankings: Iterable[Ranking]) -> list[Line2D]:
    """The legend: which model of a row is scored, as far as there are both kinds."""
    scored = {entry == GLOBAL for ranked in rankings for entry in ranked.entries["score"]}
    texts = {False: "a model of each client's own", True: "one model for all clients"}
    style = {"ls": "", "marker": "o", "ms": 4.5, "mec": COLOURS[0]}
    return [Line2D([], [], mfc="white" if kind else COLOURS[0], label=texts[kind], **style) for kind in sorted(scored)]


def caption(results: Results, data: str, rankings: dict[str, Ranking]) -> str:
    """What dots, whiskers and lines are, and how much the seeds can tell."""
    several = len(results.study.seeds) > 1
    whiskers = f"; whiskers: from the lowest to the highest seed ({captions.varied(results)})" if several else ""
    sentences = [
        f"{captions.lead(results)}: rows on {results.title(data)} by accuracy.",
        f"Dots: {'mean over ' if several else ''}{captions.seeds(results)}{whiskers}. Lines on the right join rows "
        "that cannot be told apart.",
        *(ranked.sentence() for ranked in rankings.values()),
        *figure_captions.left_out(results, entries_of(results, data)),
    ]
    return figure_captions.in_two(sentences, [figure_captions.scored_on(results, data)])
