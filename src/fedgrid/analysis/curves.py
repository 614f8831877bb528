"""Learning curves: accuracy against communication rounds."""

from textwrap import fill
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis import captions
from fedgrid.analysis.points import client_series
from fedgrid.analysis.results import CELL, Results
from fedgrid.analysis.scores import SCORED, over_clients, summary
from fedgrid.analysis.style import line_style

PANELS_ACROSS = 3
PANEL = (3.3, 3.1)
"""Width and height of a panel in inches."""
CROWDED, LARGER = 10, 1.5
"""From more lines than this on, panels are larger by this factor."""
LEGEND = (1.8, 0.19)
"""Width and height of a name in the legend in inches."""
NARROW = 4.2
"""Width of the figure for narrow screens in inches."""


def curves(results: Results, data: str, narrow: bool = False) -> tuple[Figure, str, str]:
    """One panel per heterogeneity of `data`, one line per method; return the figure, its title and its caption.

    With `narrow`, panels stand below each other, as on a phone, and the legend below them.
    A method of which a seed diverged, or none is finished, is left out of that panel (and named in the caption).
    Raises `UserError` when the study has no such data set.
    """
    panels = results.heterogeneities(data)
    across = 1 if narrow else min(len(panels), PANELS_ACROSS)
    down = -(-len(panels) // across)
    size, legend_columns = measures(len(results.names), across, down, narrow)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat)
    means = over_clients(client_series(results), [*CELL, "round"])
    table = summary(results)
    for ax, heterogeneity in zip(axes, panels, strict=False):
        entries = table[(table["data"] == data) & (table["heterogeneity"] == heterogeneity)].set_index("label")
        panel = means[(means["data"] == data) & (means["heterogeneity"] == heterogeneity)]
        draw_panel(ax, panel[panel["label"].map(entries["status"]).isin(SCORED)], list(results.names))
        ax.set_title(fill(results.words(heterogeneity), 44))
    for ax in axes[len(panels) :]:
        ax.remove()
    figure.supylabel("Mean test accuracy (%)", fontsize="medium")
    table = table[table["data"] == data]
    drawn = set(table.loc[table["status"].isin(SCORED), "label"])
    handles = [
        figure.axes[0].plot([], [], lw=1.8, label=name, **line_style(i))[0]
        for i, (label, name) in enumerate(results.names.items())
        if label in drawn
    ]
    place: Literal["outside lower center", "outside right center"]
    place = "outside lower center" if narrow else "outside right center"
    figure.legend(handles=handles, loc=place, handlelength=2.8, ncols=legend_columns)
    return figure, f"Learning curves on {results.title(data)}", captions.curves(results, data, table)


def measures(names: int, across: int, down: int, narrow: bool) -> tuple[tuple[float, float], int]:
    """Width and height of the figure in inches, and the columns of its legend."""
    width, height = (side * (LARGER if names > CROWDED else 1) for side in PANEL)
    if narrow:
        columns = int(NARROW / LEGEND[0])
        return (NARROW, PANEL[1] * down + LEGEND[1] * -(-names // columns)), columns
    columns = -(-names // int(height * down / LEGEND[1]))
    return (width * across + LEGEND[0] * columns, height * down), columns


def draw_panel(ax: Axes, means: pd.DataFrame, labels: list[str]) -> None:
    """Draw mean and range over seeds of each method; `means` has one row per (label, seed, round)."""
    for i, label in enumerate(labels):
        over_seeds = means[means["label"] == label].groupby("round")["accuracy"].agg(["mean", "min", "max"]) * 100
        if over_seeds.empty:
            continue
        style = line_style(i)
        ax.fill_between(over_seeds.index, over_seeds["min"], over_seeds["max"], color=style["color"], alpha=0.13, lw=0)
        ax.plot(over_seeds.index, over_seeds["mean"], lw=1.4, **style)
    ax.margins(x=0.01)
    ax.set_xlabel("Communication round")
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.tick_params(labelbottom=True)  # also where the panel below is empty
