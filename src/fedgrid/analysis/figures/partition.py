"""A partition as bubbles by client and class: who holds what."""

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis.figures.common.palette import COLOURS, GREY, MOST_CLASSES, SKY
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.partition.common.publish import opened
from fedgrid.partition.common.statistics import class_counts, statistics

WIDEST_STEP = 0.34
"""Between two clients or two classes, in inches."""
TRAIN, TEST = SKY, COLOURS[1]

LONGEST_SIDE = 9.0
"""Of the field of bubbles, in inches."""
STEP_RATIO = 2.5
"""The longer step over the shorter one, at most."""
INK = 0.12
"""Share of a crowded field that bubbles may cover, though the largest then reach over their neighbours."""
SIZES = 3
"""Bubbles in the legend of sizes."""
MOST_SHAPES = 4000
"""Bubbles that are drawn one by one; more are embedded as an image, or the file would be tens of megabytes."""
DPI = 200
"""Of such an image."""
DISC, LEFT, RIGHT = Path.unit_circle(), Path.wedge(90, 270), Path.wedge(-90, 90)
HALF_DISCS = (
    "The area of a left half-disc is a client's number of training images of a class, the area of a right one that of "
    "its test images; the bars on top are the sizes of the clients."
)
DISCS = (
    "The area of a disc is a client's number of training images of a class; the bars on top are the sizes of the "
    "clients."
)


class Options(FigureOptions):
    """There is nothing to choose."""

    subject = "partition"


def draw_figure(partition: FilePath, options: Options, title: str) -> Drawn:
    """Clients along x, classes along y, area ∝ samples; return the figure, its title and its caption.

    A bubble's left half are training images (with those for validation) and its right half the client's own test
    images, so that neither hides the other; where all clients share one test set, bubbles are whole. Raises `UserError`
    for a file that is no partition.
    """
    table, metadata = opened(partition)
    shape = metadata["clients"], len(metadata["classes"])
    training, test = class_counts(table, *shape)
    halved = bool(test.any())
    drawn = {"train": (training, LEFT if halved else DISC, TRAIN)} | ({"test": (test, RIGHT, TEST)} if halved else {})
    across, up = steps(*shape)
    width, height = across * shape[0], up * shape[1]
    figure = Figure(figsize=(width + 2, height + 1.6), dpi=DPI, layout="constrained")
    sizes, field = figure.subplots(2, 1, sharex=True, height_ratios=[0.8, height])
    largest = max(training.max(), test.max(), 1)
    area = area_of_an_image(across, up, largest, (training + test).sum() / (width * height))
    for counts, marker, colour in drawn.values():
        draw_field(field, counts, area, marker, colour)
    label_axes(field, shape[0], metadata["classes"], width, height)
    draw_sizes(sizes, training.sum(axis=1), test.sum(axis=1), numbered=across == WIDEST_STEP)
    add_legend(figure, field, {name: (marker, colour) for name, (_, marker, colour) in drawn.items()}, area, largest)
    summary = statistics(table, *shape)
    return figure, title, caption(title, HALF_DISCS if halved else DISCS, metadata, summary)


def steps(clients: int, classes: int) -> tuple[float, float]:
    """Inches from one client to the next, and from one class to the next."""
    across, up = (min(WIDEST_STEP, LONGEST_SIDE / n) for n in (clients, classes))
    return min(across, STEP_RATIO * up), min(up, STEP_RATIO * across)


def area_of_an_image(across: float, up: float, largest: int, density: float) -> float:
    """Points squared, so that the `largest` bubble fits its place; more where few of many places are taken.

    `density` is the mean number of images on a square inch.
    """
    within, widest = 0.8 * across * up / largest, 0.8 * WIDEST_STEP**2 / largest
    return 72**2 * max(within, min(widest, INK / max(density, 1)))


def label_axes(ax: Axes, clients: int, classes: list[str], width: float, height: float) -> None:
    """Number the clients; name the classes, or number them where they are many. `ax` is so many inches large."""
    ax.set(xlabel="Client", ylabel="Class", xlim=(-0.6, clients - 0.4), ylim=(-0.6, len(classes) - 0.4))
    ax.xaxis.set_major_locator(MaxNLocator(max(2, min(20, int(width / 0.3))), integer=True, steps=[1, 2, 5, 10]))
    if len(classes) <= MOST_CLASSES and height / len(classes) > 0.15:
        ax.set_yticks(range(len(classes)), classes)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(max(2, int(height / 0.2)), integer=True, steps=[1, 2, 5, 10]))


def draw_field(ax: Axes, counts: np.ndarray, area: float, marker: Path, colour: str) -> None:
    """Draw a bubble for each client and class that has images; `area` is that of an image, in points squared."""
    client, label = np.nonzero(counts)
    order = np.argsort(-counts[client, label], kind="stable")  # small ones last, or a large neighbour may hide them
    client, label = client[order], label[order]
    bubbles = ax.scatter(client, label, s=area * counts[client, label], marker=marker, color=colour, linewidths=0)
    bubbles.set_rasterized(len(client) > MOST_SHAPES)


def draw_sizes(ax: Axes, training: np.ndarray, test: np.ndarray, numbered: bool) -> None:
    """Draw each client's number of images above the bubbles, as a number too where there is room for it."""
    clients, totals = np.arange(len(training)), training + test
    width = 0.7 if len(clients) <= 100 else 1  # gaps between more bars would only be a grey veil
    ax.bar(clients, training, width, color=TRAIN)
    ax.bar(clients, test, width, training, color=TEST)
    ax.set(ylabel="Images", ylim=(0, 1.25 * max(totals.max(), 1)))
    ax.grid(axis="x", visible=False)
    ax.tick_params(axis="x", length=0, labelbottom=False)
    over: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 6.5, "color": GREY}
    for client, total in enumerate(totals) if numbered else ():
        ax.annotate(f"{total}", (client, total), (0, 2), **over)


def add_legend(figure: Figure, ax: Axes, splits: dict[str, tuple[Path, str]], area: float, largest: int) -> None:
    """Explain marker and colour of the `splits`, and show the area of some round numbers of images."""
    numbers = [int(n) for n in MaxNLocator(SIZES, integer=True).tick_values(0, largest) if 0 < n <= largest]
    marker = splits["train"][0]
    shown = [(name, 90.0, *look) for name, look in splits.items()]
    shown += [(f"{n:,} image{'s' * (n > 1)}", area * n, marker, "#aaaaaa") for n in numbers]
    handles = [
        ax.scatter([], [], s=size, marker=path, color=colour, linewidths=0, label=text)
        for text, size, path, colour in shown
    ]
    tallest = np.sqrt(area * numbers[-1]) / rcParams["font.size"]
    figure.legend(handles=handles, loc="outside right center", labelspacing=max(1.0, tallest - 0.6))


def caption(title: str, picture: str, metadata: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """The caption of a picture of a partition, a second paragraph on how different clients are.

    `summary` are its statistics, `picture` says how to read the drawing.
    """
    images, size = summary["images"], summary["size"]
    held_out = f", {images['validation']:,} of them for validation" if images["validation"] else ""
    held = f"{size['min']:,} to {size['max']:,}" if size["min"] < size["max"] else f"{size['min']:,}"
    total = images["train"] + images["validation"]
    held = f"A client holds {held} training images; there are {total:,} in all{held_out}."
    apart = f"\n\n{distances(summary)}" if summary["jensen_shannon"]["mean"] is not None else ""
    return f"{title}: who holds what. {picture} {held} {tested_on(metadata, summary)}{apart}"


def tested_on(metadata: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Which test images the clients of a partition have."""
    if not summary["shared_test"]:
        return f"Every client has its own test images, {summary['images']['test']:,} in all."
    weighted = ", each weighing its classes as in its own training images" if metadata["test"] == "weighted" else ""
    return f"All clients share {summary['shared_test']:,} official test images{weighted}."


def distances(summary: Mapping[str, Any]) -> str:
    """How different the clients of a partition are, in words that say what is measured."""
    return (
        "The Jensen–Shannon distance between the class distributions of two clients (base 2; 0: equal, 1: no common "
        f"class) is {summary['jensen_shannon']['mean']:.2f} on average over all pairs; the L1 distance between a "
        "client's class distribution and that of all training images (0 to 2; Zhao et al., 2018, call it earth mover's "
        f"distance) is {summary['earth_mover']['mean']:.2f} on average."
    )
