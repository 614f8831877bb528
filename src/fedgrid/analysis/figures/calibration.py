"""Reliability diagrams: how often predictions of a confidence are right, one panel a row and heterogeneity."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from fedgrid.analysis.figures.common.artifacts import predictions_of
from fedgrid.analysis.figures.common.palette import COLOURS, GREY
from fedgrid.analysis.figures.common.panels import panels_by_column
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose import captions, prediction_captions
from fedgrid.analysis.prose.figure_captions import in_two
from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores.predictions import Tallies, Tally, pooled
from fedgrid.analysis.scores.results import Results

SIZE, BESIDE = (2.1, 2.7), 0.6
"""Width and height of a panel with its title, and the width of what stands beside all, in inches."""
SMALL, LARGE = 8, 200
"""Areas of a mark in square points: without images, and with all of them."""
THIN, THICK = 0.6, 8
"""Widths of a line in points, likewise."""
MARK, GAP = COLOURS[0], COLOURS[1]


class Options(FigureOptions):
    """There is nothing to choose."""


def draw_figure(results: Results, options: Options, data: str) -> Drawn:
    """One panel a row and heterogeneity of `data`, one mark a bin; return the figure, its title and its caption.

    Bins are of the predictions of all seeds together; the error that is printed is the mean over seeds. Raises
    `UserError` when the study has no such data set, and `Undrawn` when no cell has predictions of the model that scores
    it.
    """
    predictions = predictions_of(results, data)
    by_seed = predictions.by_entry
    figure, groups = panels_by_column(results, by_seed, SIZE, BESIDE, ("Mean confidence (%)", "Accuracy (%)"))
    for _, panels in groups:
        for entry, ax in panels.items():
            draw(ax, pooled(by_seed[entry]))
            ax.set_title(f"{ax.get_title()}\n{error_text(by_seed[entry])}", fontsize="medium")
    return figure, f"Calibration on {results.title(data)}", caption(results, data, predictions)


def draw(ax: Axes, tally: Tally) -> None:
    """Draw the bins that have images, their distances from the diagonal, and the diagonal."""
    filled = tally.images > 0
    images = tally.images[filled]
    confidence, accuracy = (100 * sums[filled] / images for sums in (tally.confidence, tally.correct))
    share = images / images.sum()
    ax.plot([0, 100], [0, 100], color=GREY, lw=0.8, ls=(0, (4, 2)))
    ax.vlines(confidence, confidence, accuracy, color=GAP, lw=THIN + (THICK - THIN) * share)
    ax.scatter(confidence, accuracy, SMALL + (LARGE - SMALL) * share, color=MARK, linewidths=0, zorder=3, clip_on=False)
    ax.set(xlim=(0, 100), ylim=(0, 100), xticks=range(0, 101, 25), yticks=range(0, 101, 25))


def error_text(tallies_by_seed: Sequence[Tally]) -> str:
    """The expected calibration error in percent, with ± of several seeds."""
    errors = [tally.calibration_error for tally in tallies_by_seed]
    spread = f" ± {percent(float(np.std(errors, ddof=1)))}" if len(errors) > 1 else ""
    return f"ECE {percent(float(np.mean(errors)))}{spread} %"


def caption(results: Results, data: str, predictions: Tallies) -> str:
    """What the marks are, and which cells are not in them."""
    several = len(results.study.seeds) > 1
    sentences = [
        f"{captions.lead(results)}: accuracy against mean confidence on {results.title(data)} after the last round. "
        f"{prediction_captions.CONFIDENCE}",
        "Each mark is a bin. Its area grows with the bin's share of the images, and so does the width of the line to "
        "the dashed diagonal, which shows the difference. Below the diagonal, a model is overconfident.",
        prediction_captions.counted_images(results),
        prediction_captions.ERROR + (f": {captions.over_seeds(results)}." if several else "."),
        *prediction_captions.absent_cells(results, predictions, "not drawn"),
    ]
    return in_two(sentences, prediction_captions.protocol(results, predictions))
