"""A partition as stacked bars: the images of each client by class, with domains below."""

from collections.abc import Iterable
from pathlib import Path as FilePath

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import ColorType

from fedgrid.analysis.figures.common.palette import COLOURS, MOST_CLASSES, colours_of_classes
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.figures.partition import TRAIN, WIDEST_STEP, caption
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.partition.common.publish import opened
from fedgrid.partition.common.statistics import statistics

NARROWEST, WIDEST = 3.0, 9.0
"""The narrowest and widest field of bars, in inches."""
HEIGHT, STRIP = 3.2, 0.6
"""Of the bars and of the strip of domains, in inches."""
SORTED = 1.3
"""Width of the panel of sorted sizes, in inches."""
BARS = (
    "The length of a bar is a client's number of training images, its colours are their classes{domains}; the small "
    "panel has the same clients by size."
)


class Options(FigureOptions):
    """There is nothing to choose."""

    subject = "partition"


def draw_figure(partition: FilePath, options: Options, title: str) -> Drawn:
    """Clients along x, images along y, coloured by class; return the figure, its title and its caption.

    Training images with those for validation are drawn. Raises `UserError` for a file that is no partition.
    """
    table, metadata = opened(partition)
    clients, classes = metadata["clients"], metadata["classes"]
    summary = statistics(table, clients, len(classes))
    counts = np.array(summary["counts"])
    domains = {name: summary["domains"].get(name, [0] * clients) for name in metadata["domains"]}
    width, strip = float(np.clip(WIDEST_STEP * clients, NARROWEST, WIDEST)), STRIP if domains else 0
    figure = Figure(figsize=(width + SORTED + 2, HEIGHT + strip + 0.6), layout="constrained")
    grid = figure.add_gridspec(
        1 + bool(domains), 2, width_ratios=[width, SORTED], height_ratios=[HEIGHT, strip][: 1 + bool(domains)]
    )
    bars = figure.add_subplot(grid[0, 0])
    bars.set(ylabel="Training images", xlim=(-0.6, clients - 0.4), ylim=(0, 1.04 * max(counts.sum(axis=1).max(), 1)))
    bars.xaxis.set_major_locator(MaxNLocator(20, integer=True, steps=[1, 2, 5, 10]))
    stack(bars, counts, colours_of_classes(len(classes)))
    draw_sorted(figure.add_subplot(grid[0, 1], sharey=bars), counts.sum(axis=1))
    if domains:
        draw_domains(figure.add_subplot(grid[1, 0], sharex=bars), figure.add_subplot(grid[1, 1]), domains)
        bars.tick_params(labelbottom=False)
    figure.axes[-2 if domains else 0].set_xlabel("Client")
    add_classes(figure, classes)
    reading = BARS.format(domains=", the strip below has the shares of their domains" if domains else "")
    return figure, title, caption(title, reading, metadata, summary)


def stack(ax: Axes, heights: np.ndarray, colours: Iterable[ColorType]) -> None:
    """Draw bars of [clients, parts] heights; one shape a colour, so that thousands of bars remain a small file."""
    half = 0.42 if len(heights) <= 50 else 0.5  # gaps between more bars would only be a grey veil
    tops = heights.cumsum(axis=1)
    for part, colour in enumerate(colours):
        client = np.flatnonzero(heights[:, part])
        start, end, top = client - half, client + half, tops[client, part]
        bottom = top - heights[client, part]
        corners = np.stack([start, bottom, end, bottom, end, top, start, top], axis=1).reshape(-1, 4, 2)
        if len(client):
            ax.add_patch(PathPatch(Path.make_compound_path_from_polys(corners), color=colour, linewidth=0))
    ax.grid(axis="x", visible=False)


def draw_sorted(ax: Axes, sizes: np.ndarray) -> None:
    """Draw the sizes of the clients from the largest to the smallest."""
    ax.stairs(np.sort(sizes)[::-1], fill=True, color=TRAIN)
    ax.set(xlabel="Clients by size", xlim=(0, len(sizes)))
    ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.tick_params(labelleft=False)


def draw_domains(ax: Axes, beside: Axes, domains: dict[str, list[int]]) -> None:
    """Draw the shares of the domains, with their names `beside`."""
    counts = np.array(list(domains.values())).T
    colours = COLOURS if len(domains) <= len(COLOURS) else colours_of_classes(len(domains))
    stack(ax, counts / counts.sum(axis=1, keepdims=True).clip(1), colours[: len(domains)])
    ax.set(ylabel="Domains", ylim=(0, 1), yticks=[])
    beside.axis("off")
    columns = -(-len(domains) // 4)
    beside.legend(
        handles=legend_patches(domains, colours), loc="center left", fontsize="small", labelspacing=0.2, ncols=columns
    )


def add_classes(figure: Figure, classes: list[str]) -> None:
    """Explain the colours of the classes: by name, or as a scale where they are many."""
    if len(classes) > MOST_CLASSES:
        scale = ScalarMappable(Normalize(0, len(classes) - 1), "turbo")
        figure.colorbar(scale, ax=figure.axes, label="Class", ticks=MaxNLocator(8, integer=True), aspect=30)
        return
    handles = legend_patches(classes, colours_of_classes(len(classes)))[::-1]  # from top to bottom as in the bars
    figure.legend(handles=handles, loc="outside right upper", title="Class", fontsize="small", labelspacing=0.3)


def legend_patches(names: Iterable[str], colours: Iterable[ColorType]) -> list[Patch]:
    """Entries of a legend."""
    return [Patch(color=colour, label=name) for name, colour in zip(names, colours, strict=False)]
