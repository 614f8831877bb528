"""Partition bubbles: which client holds how much of which class."""

from pathlib import Path as FilePath

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis.figures.holdings import holdings
from fedgrid.analysis.figures.style import GREY, TEST, TRAIN
from fedgrid.partition.common.publish import opened
from fedgrid.partition.common.statistics import class_counts, statistics

LONGEST_SIDE = 9.0
"""Of the field of bubbles, in inches."""
WIDEST_STEP = 0.34
"""Between two clients or two classes, in inches."""
STEP_RATIO = 2.5
"""The longer step over the shorter one, at most."""
INK = 0.12
"""Share of a crowded field that bubbles may cover, though the largest then reach over their neighbours."""
SIZES = 3
"""Bubbles in the legend of sizes."""
MOST_NAMES = 20
"""Classes that are named at the axis; more are numbered."""
MOST_SHAPES = 4000
"""Bubbles that are drawn one by one; more are embedded as an image, or the file would be tens of megabytes."""
DPI = 200
"""Of such an image."""
DISC, LEFT, RIGHT = Path.unit_circle(), Path.wedge(90, 270), Path.wedge(-90, 90)
READING = {
    True: "The area of a left half-disc is a client's number of training images of a class, the area of a right one "
    "that of its test images; the bars on top are the sizes of the clients.",
    False: "The area of a disc is a client's number of training images of a class; the bars on top are the sizes of "
    "the clients.",
}
"""Whether clients have their own test images → how the picture is read."""


def bubbles(partition: FilePath, title: str) -> tuple[Figure, str, str]:
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
    found = statistics(table, *shape)
    return figure, title, holdings(title, READING[halved], metadata, found)


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
    if len(classes) <= MOST_NAMES and height / len(classes) > 0.15:
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
    for client, total in enumerate(totals) if numbered else ():
        ax.annotate(
            f"{total}", (client, total), (0, 2), textcoords="offset points", ha="center", fontsize=6.5, color=GREY
        )


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
