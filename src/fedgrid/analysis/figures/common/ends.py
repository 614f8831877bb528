"""Names at the ends of lines, spread so that none covers another."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import ScaledTranslation

LONGEST = 16
"""Letters of a name in a line."""
BESIDE, GAP = 12, 1.5
"""From the panel to the names, and between two names, in points."""
POINTS = 72
"""In an inch."""
LETTER = 0.075
"""Width of a letter in inches, on average."""


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> np.ndarray:
    """Centres [n] of boxes of some heights, as near as possible to those that are `wanted`, none over another.

    They lie between `low` and `high` where there is room for all, else they begin at `low`. Boxes keep the order of
    what is wanted; those that would meet are moved together (pool adjacent violators, least squares).
    """
    order = np.argsort(wanted, kind="stable")
    sizes = np.asarray(heights, dtype=float)[order]
    offsets = np.cumsum(sizes) - sizes / 2  # centres of boxes that are stacked from zero
    blocks: list[tuple[float, int]] = []  # means of what is wanted less offsets, and numbers of boxes
    for value in np.asarray(wanted, dtype=float)[order] - offsets:
        mean, number = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, of_them = blocks.pop()
            mean, number = (before * of_them + mean * number) / (of_them + number), of_them + number
        blocks.append((mean, number))
    shifts = np.repeat([mean for mean, _ in blocks], [number for _, number in blocks])
    shifts = np.maximum(np.minimum(shifts, high - sizes.sum()), low)
    centres = np.empty(len(sizes))
    centres[order] = shifts + offsets
    return centres


def width_of(names: Sequence[str]) -> float:
    """Inches that names at the ends of lines take beside a panel."""
    letters = [len(line) for name in names for line in fill(name, LONGEST).split("\n")]
    return BESIDE / POINTS + LETTER * max(letters) if letters else 0.0


def label_ends(
    figure: Figure,
    panels: Mapping[str, Axes],
    table: pd.DataFrame,
    names: Mapping[str, str],
    colours: Mapping[str, str],
) -> dict[str, list[Annotation]]:
    """Write the `names` of some lines beside each panel where they end, with a thin line to the end; by panel.

    To be called when the limits of all axes stand. A line that ends outside the axis has no name.
    """
    written = {panel: annotate(ax, table[table["panel"] == panel], names, colours) for panel, ax in panels.items()}
    figure.draw_without_rendering()  # names take room beside the panels, whose heights do not change from here on
    for panel, ax in panels.items():
        texts, box = written[panel], ax.get_window_extent()
        heights = [Text.get_window_extent(text).height + GAP * figure.dpi / POINTS for text in texts]
        wanted = [ax.transData.transform(text.xy)[1] for text in texts]
        for text, centre in zip(texts, spread(wanted, heights, box.y0, box.y1), strict=True):
            text.set_position((1, ax.transData.inverted().transform((0, centre))[1]))
    return written


def annotate(ax: Axes, lines: pd.DataFrame, names: Mapping[str, str], colours: Mapping[str, str]) -> list[Annotation]:
    """Names at the right of one panel, each as high as its line's end."""
    low, high = sorted(ax.get_ylim())
    beside = ax.get_yaxis_transform() + ScaledTranslation(BESIDE / POINTS, 0, ax.figure.dpi_scale_trans)
    last = lines[lines["mean"].notna()].groupby("label", sort=False)[["x", "mean"]].last()
    return [
        ax.annotate(
            fill(name, LONGEST),
            (last.loc[label, "x"], last.loc[label, "mean"]),
            (1, last.loc[label, "mean"]),
            textcoords=beside,
            annotation_clip=False,
            va="center",
            fontsize="small",
            color=colours[label],
            arrowprops={"arrowstyle": "-", "lw": 0.6, "color": colours[label], "shrinkA": 0, "shrinkB": 1},
        )
        for label, name in names.items()
        if label in last.index and low <= last.loc[label, "mean"] <= high
    ]
