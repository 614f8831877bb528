"""Learning curves: accuracy on test images against communication rounds."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from fedgrid.analysis.figures.common import limits
from fedgrid.analysis.figures.common.emphasis import emphasis
from fedgrid.analysis.figures.common.lines import banded, logarithmic, name_ends, number_rounds, panelled
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.papers.measured import statuses
from fedgrid.analysis.prose import captions, figure_captions
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.points import client_series
from fedgrid.analysis.scores.results import CELL, ROW, SAMPLE, Results
from fedgrid.analysis.scores.summary import SCORED
from fedgrid.components import LARGEST
from fedgrid.grid.study.codec import Limits

ROUNDS = "Communication round"
"""The axis of most curves."""


@dataclass(frozen=True)
class Measure:
    """What is drawn, against what."""

    title: str
    text: str
    y: str
    scale: float = 1.0
    "What a value is multiplied by."
    x: str = ROUNDS
    against: str = "communication rounds"
    decades: Literal["x", "y"] | None = None
    "The axis that is logarithmic where values span decades."
    needs: str = ""
    "What a row needs to have a line, beside a score."


ACCURACY = Measure("Learning curves", "mean test accuracy", "Mean test accuracy (%)", 100)
POINT = ["label", "heterogeneity", "round"]
"""What names a point of a line."""


@dataclass(frozen=True)
class Options(FigureOptions):
    """What a study may say of it."""

    of_lines = True

    window: Annotated[int, Limits(low=1, high=LARGEST)] = 1
    "A point is the mean over the evaluated rounds among that many last rounds."


def draw_figure(results: Results, options: Options, data: str, narrow: bool = False, colours: bool = False) -> Drawn:
    """One panel per heterogeneity of `data`, one line per method; return the figure, its title and its caption.

    A method of which a seed
    diverged, or none is finished, is left out of that panel (and named in the caption). `narrow` as in `lines`,
    `colours` as in `emphasis`. Raises `UserError` when the study has no such data set.
    """
    return over_rounds(results, data, ACCURACY, round_means(results, data), options.window, narrow, colours)


def over_rounds(
    results: Results, data: str, measure: Measure, means: pd.DataFrame, window: int, narrow: bool, colours: bool
) -> Drawn:
    """The curves of a `measure`; `means` are those of `round_means`."""
    window = window if window < means["round"].max() else 1
    values = smoothed(means, window) if window > 1 else means
    table = banded(values.assign(value=values["value"] * measure.scale), POINT).rename(columns={"round": "x"})
    smooth = f"each point the mean over the evaluated rounds among the last {window}" if window > 1 else "unsmoothed"
    return draw_lines(results, data, measure, table, f", {smooth}", narrow, colours)


def draw_lines(
    results: Results, data: str, measure: Measure, table: pd.DataFrame, how: str, narrow: bool, colours: bool
) -> Drawn:
    """The lines of a `measure`, a panel a heterogeneity; `table` is as from `banded`, by row, heterogeneity and `x`.

    `how` ends the sentence that says what is drawn.
    """
    panels, names, entries = results.panel_titles(data), results.names, entries_of(results, data)
    table = table.rename(columns={"heterogeneity": "panel"})
    stands_out = emphasis(results, data, set(table["label"]), colours)
    panel_limits = {} if measure.decades == "y" else limits.limits(table, panels, True, stands_out.lines)
    points = table.groupby("label")["x"].nunique()
    single = points.index[(points == 1) & (measure.x == ROUNDS)]  # a line of one point would not be seen
    figure, axes = panelled(table, panels, names, measure.x, measure.y, narrow, single, stands_out, panel_limits)
    if measure.x == ROUNDS:
        number_rounds(axes.values())
    if measure.decades:
        spread = table["mean"] if measure.decades == "y" else table.groupby(["label", "panel"])["x"].max()
        logarithmic(next(iter(axes.values())), measure.decades, spread)
    name_ends(figure, axes, table, names, stands_out, narrow)
    scored, drawn = figure_captions.with_scores(entries), set(table["label"])
    lacking = [name for label, name in names.items() if measure.needs and label in scored - drawn]
    sentences = [
        f"{captions.lead(results)}: {measure.text} over clients, each weighted equally, against {measure.against} on "
        f"{results.title(data)}{how}.",
        *figure_captions.sampled(results, data),
        figure_captions.lines(results, scored & drawn if measure.needs else scored, stands_out.has_bands(drawn)),
        *stands_out.sentences(names),
        *limits.sentences(table, panel_limits, names),
        *([f"Not drawn, for lack of {measure.needs}: {listing(lacking)}."] if lacking else []),
        *figure_captions.left_out(results, entries),
    ]
    caption = figure_captions.in_two(sentences, [figure_captions.scored_on(results, data)])
    return figure, f"{measure.title} on {results.title(data)}", caption


def round_means(results: Results, data: str, drawn: Results | None = None) -> pd.DataFrame:
    """One row per cell of `data` and evaluated round with the mean over clients as `value`, rounds in order.

    Between evaluations of all clients the mean is that of the sample that is scored there. The numbers are those of
    `drawn`, by default of `results`, whose accuracies decide which entries have a line.
    """
    drawn = drawn or results
    sample = replace(drawn, clients=SAMPLE)
    series = pd.concat(map(client_series, [drawn, sample] if sample.score_metrics("test") else [drawn]))
    means = series[series["data"] == data].groupby([*CELL, "round"])["accuracy"].mean().rename("value").reset_index()
    entries = entries_of(results, data)
    return means.merge(entries.loc[entries["status"].isin(SCORED), ROW], on=ROW)


def entries_of(results: Results, data: str) -> pd.DataFrame:
    """The rows of `measured.statuses` of data set `data`; `UserError` when it was not run."""
    results.heterogeneities(data)
    table = statuses(results).reset_index()
    return table[table["data"] == data]


def smoothed(means: pd.DataFrame, window: int) -> pd.DataFrame:
    """The trailing moving average of each cell over the evaluated rounds among the last `window` rounds."""
    rounds, values = means["round"].to_numpy(), means["value"].to_numpy()
    means_of_window = np.empty(len(means))
    for rows in means.groupby(CELL, sort=False).indices.values():
        for row in rows:
            age = rounds[row] - rounds[rows]
            means_of_window[row] = values[rows[(age >= 0) & (age < window)]].mean()
    return means.assign(value=means_of_window)
