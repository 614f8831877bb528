"""Partition bubbles: which client holds how much of which class."""

from pathlib import Path as FilePath

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis import captions
from fedgrid.analysis.style import GREY, TEST, TRAIN
from fedgrid.errors import UserError

LONGEST_SIDE = 9.0
"""Of the field of bubbles, in inches."""
WIDEST_STEP = 0.34
"""Between two clients or two classes, in inches."""
STEP_RATIO = 2.5
"""The longer step over the shorter one, at most."""
SIZES = 3
"""Bubbles in the legend of sizes."""
HALVES = {"train": (Path.wedge(90, 270), TRAIN), "test": (Path.wedge(-90, 90), TEST)}
"""Split → its half of the disc and its colour."""


def read_counts(partition: FilePath) -> pd.DataFrame:
    """Samples by (client, class) in rows and split ("train", "test") in columns; `UserError` for any other file."""
    try:
        rows = pd.read_parquet(partition, columns=["client", "split", "label"])
    except FileNotFoundError:
        raise UserError(f"{partition} does not exist.") from None
    except pa.ArrowInvalid:
        raise UserError(f"{partition} is not a Parquet file of a partition.") from None
    counts = rows.astype({"split": "str"}).value_counts(["client", "label", "split"]).unstack("split", fill_value=0)
    return counts.reindex(columns=["train", "test"], fill_value=0).sort_index()


def bubbles(partition: FilePath, title: str) -> tuple[Figure, str, str]:
    """Clients along x, classes along y, area ∝ samples; return the figure, its title and its caption.

    A bubble's left half are training samples and its right half test samples, so that neither hides the other.
    """
    counts = read_counts(partition)
    clients = np.arange(counts.index.get_level_values("client").max() + 1)
    classes = np.arange(counts.index.get_level_values("label").max() + 1)
    across, up = steps(len(clients), len(classes))
    width, height = across * len(clients), up * len(classes)
    figure = Figure(figsize=(width + 2, height + 1.6), layout="constrained")
    sizes, field = figure.subplots(2, 1, sharex=True, height_ratios=[0.8, height])
    area = 0.8 * across * up * 72**2 / counts.to_numpy().max()
    draw_field(field, counts, area)
    field.set(xlabel="Client", ylabel="Class", xlim=(-0.6, len(clients) - 0.4), ylim=(-0.6, len(classes) - 0.4))
    field.xaxis.set_major_locator(MaxNLocator(20, integer=True, steps=[1, 2, 5, 10]))
    field.yaxis.set_major_locator(MaxNLocator(max(2, int(height / 0.2)), integer=True, steps=[1, 2, 5, 10]))
    draw_sizes(sizes, counts.groupby("client").sum().reindex(clients, fill_value=0), numbered=across == WIDEST_STEP)
    add_legend(figure, field, counts, area)
    return figure, title, captions.partition(title, counts.sum())


def steps(clients: int, classes: int) -> tuple[float, float]:
    """Inches from one client to the next, and from one class to the next."""
    across, up = (min(WIDEST_STEP, LONGEST_SIDE / n) for n in (clients, classes))
    return min(across, STEP_RATIO * up), min(up, STEP_RATIO * across)


def draw_field(ax: Axes, counts: pd.DataFrame, area: float) -> None:
    """Draw the bubbles; `area` is that of a sample, as the square of a diameter in points."""
    x, y = (counts.index.get_level_values(name) for name in ("client", "label"))
    for split, (half, colour) in HALVES.items():
        ax.scatter(x, y, s=area * counts[split], marker=half, color=colour, linewidths=0)


def draw_sizes(ax: Axes, totals: pd.DataFrame, numbered: bool) -> None:
    """Draw each client's number of samples above the bubbles, as a number too where there is room for it."""
    ax.bar(totals.index, totals["train"], 0.7, color=TRAIN)
    ax.bar(totals.index, totals["test"], 0.7, totals["train"], color=TEST)
    ax.set_ylabel("Samples")
    ax.margins(y=0.18)
    ax.grid(axis="x", visible=False)
    ax.tick_params(axis="x", length=0, labelbottom=False)
    for client, total in totals.sum(axis=1).items() if numbered else ():
        ax.annotate(
            f"{total}", (client, total), (0, 2), textcoords="offset points", ha="center", fontsize=6.5, color=GREY
        )


def add_legend(figure: Figure, ax: Axes, counts: pd.DataFrame, area: float) -> None:
    """Explain the two halves, and show the area of some round numbers of samples."""
    largest = counts.to_numpy().max()
    numbers = [int(n) for n in MaxNLocator(SIZES, integer=True).tick_values(0, largest) if 0 < n <= largest]
    shown = [(split, 90, colour) for split, (_, colour) in HALVES.items()]
    shown += [(f"{n:,} sample{'s' * (n > 1)}", area * n, "#aaaaaa") for n in numbers]
    markers = [HALVES["test" if text == "test" else "train"][0] for text, _, _ in shown]
    handles = [
        ax.scatter([], [], s=size, marker=marker, color=colour, linewidths=0, label=text)
        for marker, (text, size, colour) in zip(markers, shown, strict=True)
    ]
    figure.legend(handles=handles, loc="outside right center", labelspacing=1.0)
