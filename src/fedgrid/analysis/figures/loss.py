"""Losses on test images against communication rounds."""

from dataclasses import replace

from fedgrid.analysis.figures import curves
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.figures.curves import Measure, over_rounds, round_means
from fedgrid.analysis.scores.results import Results

LOSS = Measure("Test loss", "mean test loss (cross entropy)", "Mean test loss (nats)", decades="y")


class Options(curves.Options):
    """Those of learning curves."""


def draw_figure(results: Results, options: Options, data: str, narrow: bool = False, colours: bool = False) -> Drawn:
    """The same as learning curves of the losses of the models that are scored."""
    means = round_means(results, data, replace(results, quantity="loss"))
    return over_rounds(results, data, LOSS, means, options.window, narrow, colours)
