"""Panels of lines with bands: what curves, sweeps and everything else that is a line are drawn by."""

from collections.abc import Collection, Iterable, Mapping
from textwrap import fill
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from fedgrid.analysis.figures.common.emphasis import Emphasis
from fedgrid.analysis.figures.common.ends import label_ends, width_of
from fedgrid.analysis.figures.common.limits import Limits, cut_off, seen
from fedgrid.analysis.figures.common.palette import GREY, MUTED
from fedgrid.analysis.figures.common.style import MOST_ACROSS, columns_of_panels

PANEL = (3.3, 3.1)
"""Width and height of a panel in inches."""
CROWDED, LARGER = 10, 1.5
"""From more lines than this on, panels are larger by this factor."""
LEGEND = (1.8, 0.19)
"""Width and height of a name in the legend in inches."""
MARKED: dict[str, Any] = {"marker": "o", "markersize": 3.5}
DECADE = 10
"""From this ratio of the largest to the smallest number on, an axis is logarithmic."""
NARROW = 4.2
"""Width of the figure for narrow screens in inches."""
NOTHING = Emphasis()
"""Stands out."""


def banded(values: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The `mean`, `low`est and `high`est `value` within each group of `by`, as columns beside those of `by`."""
    groups = values.groupby(by, sort=False)["value"]
    return pd.DataFrame({"mean": groups.mean(), "low": groups.min(), "high": groups.max()}).reset_index()


def panelled(
    table: pd.DataFrame,
    titles: Mapping[str, str],
    names: Mapping[str, str],
    x: str,
    y: str,
    narrow: bool = False,
    marked: Collection[str] = (),
    emphasis: Emphasis = NOTHING,
    limits: Limits = {},
) -> tuple[Figure, dict[str, Axes]]:
    """A figure with one panel for each of `titles` and one line for each of `names`; and its panels, by name.

    `table` has the columns `panel`, `label`, `x`, `mean`, `low` and `high`, the points of a line in order; NaN breaks
    it. `x` and `y` name the axes; the points of `marked` lines have marks, and what `emphasis` names lies on top. With
    `narrow`, panels stand below each other, as on a phone, and the legend below them. Panels share the y axis unless
    their `limits` differ.
    """
    across = 1 if narrow else columns_of_panels(len(titles))
    down = -(-len(titles) // across)
    drawn = set(table["label"])
    beside = {} if narrow else {label: names[label] for label in emphasis.lines if label in drawn}
    size, legend_columns = measures(len(drawn), across, down, narrow, width_of(list(beside.values())))
    figure = Figure(figsize=size, layout="constrained")
    shared, below = len(set(limits.values())) < 2, cut_off(table, limits)
    axes = list(figure.subplots(down, across, sharex=True, sharey=shared, squeeze=False).flat)
    styles = {
        label: (MARKED if label in marked else {}) | style | ({"markevery": 1} if label in marked else {})
        for label, style in emphasis.styles(names).items()
    }
    for ax, (panel, title) in zip(axes, titles.items(), strict=False):
        draw_panel(ax, table[table["panel"] == panel], styles, emphasis.has_bands(drawn))
        if panel in limits:
            ax.set_ylim(limits[panel])
            note_below(ax, below[panel], names)
        ax.set_title(fill(title, 44))
        ax.set_xlabel(x)
    for ax in axes[len(titles) :]:
        ax.remove()
    figure.supylabel(y, fontsize="medium")
    in_view = seen(table, limits)  # the others are named in the corners of their panels
    handles = [Line2D([], [], label=names[label], **styles[label]) for label in names if label in in_view]
    position: Literal["outside lower center", "outside right center"]
    position = "outside lower center" if narrow else "outside right center"
    figure.legend(handles=handles, loc=position, handlelength=2.8, ncols=legend_columns)
    return figure, dict(zip(titles, axes, strict=False))


def name_ends(
    figure: Figure,
    panels: Mapping[str, Axes],
    table: pd.DataFrame,
    names: Mapping[str, str],
    emphasis: Emphasis,
    narrow: bool,
) -> None:
    """Write what stands out at the ends of its lines, where a screen is wide enough; last, when all limits stand."""
    if not narrow and emphasis.lines:
        colours = {label: style["color"] for label, style in emphasis.styles(names).items()}
        label_ends(figure, panels, table, {label: names[label] for label in emphasis.lines}, colours)


def note_below(ax: Axes, lines: Mapping[str, float], names: Mapping[str, str]) -> None:
    """Name the lines that end below the axis in the corner of their panel."""
    if lines:
        text = "below: " + ", ".join(f"{names[label]} {value:.1f}" for label, value in lines.items())
        box = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1}
        where: dict[str, Any] = {"transform": ax.transAxes, "ha": "right", "va": "bottom", "multialignment": "right"}
        ax.text(0.99, 0.01, fill(text, 44), fontsize="x-small", color=GREY, bbox=box, **where)


def measures(names: int, across: int, down: int, narrow: bool, beside: float) -> tuple[tuple[float, float], int]:
    """Width and height of the figure in inches, and the columns of its legend; `beside` is added to every panel."""
    larger = names > CROWDED and across < MOST_ACROSS
    width, height = (side * (LARGER if larger else 1) for side in PANEL)
    if narrow:
        columns = int(NARROW / LEGEND[0])
        return (NARROW, PANEL[1] * down + LEGEND[1] * -(-names // columns)), columns
    columns = max(1, -(-names // int(height * down / LEGEND[1])))
    return ((width + beside) * across + LEGEND[0] * columns, height * down), columns


def draw_panel(ax: Axes, table: pd.DataFrame, styles: Mapping[str, Mapping[str, Any]], bands: bool) -> None:
    """Draw the lines of one panel, each in its style, with or without `bands`; grey ones have none."""
    for label, style in styles.items():
        line = table[table["label"] == label]
        if line.empty:
            continue
        if bands and style["color"] != MUTED:
            ax.fill_between(line["x"], line["low"], line["high"], color=style["color"], alpha=0.13, lw=0)
        ax.plot(line["x"], line["mean"], **style)
    ax.margins(x=0.01)
    ax.tick_params(labelbottom=True)  # also where the panel below is empty


def spans_decades(values: Iterable[float]) -> bool:
    """Whether only a logarithmic axis separates the numbers."""
    known = [value for value in values if value == value]
    return bool(known) and min(known) > 0 and max(known) / min(known) >= DECADE


def logarithmic(ax: Axes, which: Literal["x", "y"], values: Iterable[float]) -> None:
    """Make the x or y axis of all panels, which share it, logarithmic with plain ticks, if its values span decades."""
    if not spans_decades(values):
        return
    ax.set(**{f"{which}scale": "log"})
    axis = {"x": ax.xaxis, "y": ax.yaxis}[which]
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def number_rounds(axes: Iterable[Axes]) -> None:
    """Ticks of an x axis of rounds: whole numbers."""
    for ax in axes:
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
