"""Panels of methods below the heterogeneity that they are run with, some in a line."""

from collections.abc import Collection, Mapping, Sequence
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from fedgrid.analysis.figures.common.style import columns_of_panels
from fedgrid.analysis.scores.results import Results

HEAD = 0.35
"""Height of a heterogeneity's title in inches."""

Panels = dict[tuple[str, str, str], Axes]
"""By label, data set and heterogeneity."""


def panels_by_column(
    results: Results,
    entries: Collection[tuple[str, str, str]],
    size: tuple[float, float],
    beside: float,
    axis_names: tuple[str, str],
) -> tuple[Figure, list[tuple[SubFigure, Panels]]]:
    """A figure with a square panel for each of `entries` (label, data, heterogeneity), and x and y named below them.

    And its parts in study order, each with the panels of one column. `size` is that of a panel with its title, in
    inches; `beside` is the width of what stands left and right of all.
    """
    columns = [
        [(label, *column) for label in results.names if (label, *column) in entries] for column in results.columns
    ]
    columns = [column for column in columns if column]
    across = columns_of_panels(max(map(len, columns)))
    heights = [HEAD + size[1] * -(-len(column) // across) for column in columns]
    figure = Figure(figsize=(size[0] * across + beside, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(columns), 1, height_ratios=heights, squeeze=False)[:, 0]
    panels = []
    for column, part in zip(columns, parts, strict=True):
        part.suptitle(results.heterogeneity_title(column[0][2]), fontsize="large")
        part.supxlabel(axis_names[0], fontsize="medium")
        part.supylabel(axis_names[1], fontsize="medium")
        panels.append((part, panels_in_lines(part, column, across, results.names)))
    return figure, panels


def panels_in_lines(
    part: SubFigure, entries: Sequence[tuple[str, str, str]], across: int, names: Mapping[str, str]
) -> Panels:
    """Panels of entries in lines of that length, with ticks labelled at the left and where no panel is below."""
    axes = list(part.subplots(-(-len(entries) // across), across, sharex=True, sharey=True, squeeze=False).flat)
    for i, (ax, (label, *_)) in enumerate(zip(axes, entries, strict=False)):
        ax.set_title(fill(names[label], 26), fontsize="medium")
        ax.set_box_aspect(1)
        ax.tick_params(labelleft=i % across == 0, labelbottom=i + across >= len(entries))
    for ax in axes[len(entries) :]:
        ax.remove()
    return dict(zip(entries, axes, strict=False))
