"""The colours of lines, bars and classes: any two of the first sixteen lines, or of ten classes, can be told apart."""

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import matplotlib
import numpy as np

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#882255", "#6B4A1B"]
"""Okabe and Ito's palette without its yellow (too pale on white) and its second blue, and with wine and brown.

The smallest distance of two of them (CIEDE2000) is 22, and 12 for readers without red or green cones.
"""
SKY = "#56B4E9"
"""Okabe and Ito's second blue, for bars and areas, of which no other blue is beside it."""
MORE = ["#8FBC2B", "#7B3FC8"]
"""With `COLOURS`, ten for classes; no two of them are closer than two of `COLOURS`."""
DASHES = ["-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5))]
MARKS = ["o", "s", "^", "v"]
"""Of the first eight lines, the next eight, and so on."""
SPARSE = 0.12
"""Between two marks of a line whose points are not marked, as a share of the panel's diagonal."""
MUTED = "#B4B4B4"
"""Of the lines beside those that a figure is about."""
GREY = "#666666"
MOST_CLASSES = 20
"""Classes that have a colour of their own; more are on a continuous scale."""
PALER = 0.55
"""Share of white in the colours of the second ten classes."""


def line_style(i: int) -> dict[str, Any]:
    """Colour, dashes and marks of the i-th line: 32 that differ in colour or dashes.

    Neighbours differ in both, so that equal curves show. From the ninth line on, where colours are used again, marks
    tell lines of one colour apart too.
    """
    turn, colour = divmod(i, len(COLOURS))
    style = {"color": COLOURS[colour], "linestyle": DASHES[(colour + turn) % len(DASHES)]}
    return style | ({"marker": MARKS[turn % len(MARKS)], "markersize": 3.5, "markevery": SPARSE} if turn else {})


def line_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The look of every line. A name has the same colour in every figure, unless another one before it has taken it.

    Each eight names have the eight colours.
    """
    styles: dict[str, dict[str, Any]] = {}
    free: list[int] = []
    for i, name in enumerate(names):
        free = free or list(range(len(COLOURS)))
        preferred = crc32(name.encode()) % len(COLOURS)
        colour = min(free, key=lambda known: (known - preferred) % len(COLOURS))
        free.remove(colour)
        styles[name] = line_style(i // len(COLOURS) * len(COLOURS) + colour)
    return styles


def colours_of_classes(classes: int) -> np.ndarray:
    """A colour for every class, [classes, 4]: ten strong ones, then ten paler ones; of more, along a scale."""
    if classes > MOST_CLASSES:
        return matplotlib.colormaps["turbo"](np.linspace(0, 1, classes))
    strong = matplotlib.colors.to_rgba_array([*COLOURS, *MORE])
    paler = strong * (1 - PALER) + PALER
    return np.concatenate([strong, paler])[:classes]
