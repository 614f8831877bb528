"""Which class is taken for which: one matrix a row and heterogeneity."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis.figures.common.artifacts import predictions_of
from fedgrid.analysis.figures.common.panels import panels_by_column
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose import captions, prediction_captions
from fedgrid.analysis.prose.figure_captions import in_two
from fedgrid.analysis.scores.predictions import Tallies, class_names, pooled, shares, widened
from fedgrid.analysis.scores.results import Results

SIZE, BESIDE, LETTER = (2.2, 2.6), 1.3, 0.07
"""Width and height of a panel with its title, the width of what stands beside all, and that of a letter, in inches."""
MOST_NUMBERS, MOST_NAMES = 10, 20
"""Classes up to which shares are printed, and up to which classes are named."""
SCALE, UNTESTED = "Blues", "#dddddd"
"""Colours of shares, and of classes without test images are grey."""
TICKS = (0, 1, 5, 10, 25, 50, 75, 100)
"""Percents at the scale of colours."""
ROOT = 0.5
"""Colours are of this power of a share, so that rare confusions show."""
DARK = 45
"""Percent from which on numbers are white."""


class Options(FigureOptions):
    """There is nothing to choose."""


def draw_figure(results: Results, options: Options, data: str) -> Drawn:
    """One panel a row and heterogeneity of `data`; return the figure, its title and its caption.

    True classes down, predicted ones across, in percent of the true class; the predictions of all seeds together.
    Raises `UserError` when the study has no such data set, and `Undrawn` when no cell has predictions of the model that
    scores it.
    """
    predictions = predictions_of(results, data)
    counts = {entry: pooled(parts).confusion for entry, parts in predictions.by_entry.items()}
    names = class_names(results, data, max(map(len, counts.values())))
    room = LETTER * max(map(len, names)) if len(names) <= MOST_NAMES else 0
    size = SIZE[0], SIZE[1] + room
    figure, groups = panels_by_column(results, counts, size, BESIDE + room, ("Predicted class", "True class"))
    for part, panels in groups:
        for entry, ax in panels.items():
            draw(ax, widened(counts[entry], len(names)), names)
        colours = ScalarMappable(PowerNorm(ROOT, 0, 100), SCALE)
        axes, label = list(panels.values()), "Share of the true class (%)"
        part.colorbar(colours, ax=axes, label=label, ticks=TICKS, format="{x:g}", aspect=25, shrink=0.9)
    return figure, f"Confusion of classes on {results.title(data)}", caption(results, data, predictions, len(names))


def draw(ax: Axes, counts: np.ndarray, names: Sequence[str]) -> None:
    """Draw the counts [true, predicted] in percent of their rows, with the numbers where there is room."""
    percents = 100 * shares(counts, counts.sum(axis=1, keepdims=True))
    ax.set_facecolor(UNTESTED)  # a class without test images has no share
    ax.imshow(percents, cmap=SCALE, norm=PowerNorm(ROOT, 0, 100), interpolation="nearest")
    ax.grid(visible=False)
    if len(names) <= MOST_NUMBERS:
        for true, predicted in np.argwhere(counts):
            value = percents[true, predicted]
            colour = "white" if value >= DARK else "black"
            ax.text(predicted, true, f"{value:.0f}", fontsize=6, color=colour, ha="center", va="center_baseline")
    if len(names) <= MOST_NAMES:
        ax.set_xticks(range(len(names)), names, rotation=90 if max(map(len, names)) > 2 else 0)
        ax.set_yticks(range(len(names)), names)
        ax.tick_params(length=0, labelsize="small")
        return
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))


def caption(results: Results, data: str, predictions: Tallies, classes: int) -> str:
    """What the matrices are, of how many classes, and which cells are not in them."""
    sentences = [
        f"{captions.lead(results)}: how often test images of a true class (row) are predicted as another one (column) "
        f"on {results.title(data)} after the last round, in percent of the row.",
        prediction_captions.counted_images(results),
        *(["A cell without a number has no image."] if classes <= MOST_NUMBERS else []),
        *([] if classes <= MOST_NAMES else ["Classes are numbered from 0."]),
        "Colours follow the square root of the share; rows of classes without test images are grey.",
        *prediction_captions.absent_cells(results, predictions, "not drawn"),
    ]
    return in_two(sentences, prediction_captions.protocol(results, predictions))
