"""Who holds what in all data sets and heterogeneities of an experiment, in one figure."""

from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.analysis.figures.common.style import Drawn, Undrawn, columns_of_panels
from fedgrid.analysis.figures.partition import DISC, TRAIN, area_of_an_image, draw_field, label_axes
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.results import Results
from fedgrid.partition.common.publish import opened
from fedgrid.partition.common.statistics import class_counts
from fedgrid.quantities import counted

PANEL = (3.6, 3.2)
"""Width and height of a panel in inches."""
FIELD = (3.0, 2.5)
"""Width and height of the bubbles in it, in inches."""


class Options(FigureOptions):
    """There is nothing to choose."""

    subject = "study"


def draw_figure(results: Results, options: Options) -> Drawn:
    """One panel a data set and heterogeneity: clients along x, classes along y; return figure, title and caption.

    Partitions are those of the first seed; the area of a bubble is a client's number of training images of a class.
    Raises `Undrawn` when none of the partitions is there.
    """
    seed = results.study.seeds[0]
    files = {cell.column: cell.partition for cell in results.cells if cell.seed == seed}
    there = [(column, files[column]) for column in results.columns if column in files and files[column].is_file()]
    if not there:
        raise Undrawn(f"None of the partitions of seed {seed} exists.")
    by_data = [list(part) for _, part in groupby(there, key=lambda position: position[0][0])]
    across = columns_of_panels(max(map(len, by_data)))
    rows = [part[i : i + across] for part in by_data for i in range(0, len(part), across)]
    figure = Figure(figsize=(PANEL[0] * across, PANEL[1] * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), across, squeeze=False)
    for panels, axes in zip(rows, grid, strict=True):
        for (column, file), ax in zip(panels, axes, strict=False):
            largest = draw(ax, file)
            title = f"{': '.join(results.titles(*column))}\nlargest bubble: {counted(largest, 'image')}"
            ax.set_title(title, fontsize="medium")
        for ax in axes[len(panels) :]:
            ax.remove()
    lost = [column for column in results.columns if column not in dict(there)]
    return figure, "Who holds what", caption(results, lost)


def draw(ax: Axes, file: Path) -> int:
    """Draw the training images of a partition; returns the number of the largest bubble."""
    table, about = opened(file)
    counts: Any = class_counts(table, about["clients"], len(about["classes"]))[0]
    steps = FIELD[0] / about["clients"], FIELD[1] / len(about["classes"])
    largest = max(int(counts.max()), 1)
    area = area_of_an_image(*steps, largest, counts.sum() / (FIELD[0] * FIELD[1]))
    draw_field(ax, counts, area, DISC, TRAIN)
    ax.collections[-1].set_clip_on(False)  # a large bubble of the first or last client reaches over the edge
    label_axes(ax, about["clients"], about["classes"], *FIELD)
    return largest


def caption(results: Results, lost: list[tuple[str, str]]) -> str:
    """How to read the bubbles, and which partitions are not there."""
    sentences = [
        f"{results.study.title}: the area of a disc is a client's number of training images of a class, with those "
        f"for validation, seed {results.study.seeds[0]}.",
        "Every panel has its own scale; its largest bubble is given above it.",
    ]
    if lost:
        absent = listing(", ".join(results.titles(*column)) for column in lost)
        sentences.append(f"Not drawn, because the partition is not there: {absent}.")
    return " ".join(sentences)
