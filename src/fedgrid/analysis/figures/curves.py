"""Learning curves: accuracy on test images against communication rounds."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pandas as pd

from fedgrid.analysis.figures.common import limits
from fedgrid.analysis.figures.common.emphasis import emphasis
from fedgrid.analysis.figures.common.lines import banded, logarithmic, name_ends, number_rounds, panelled, spans_decades
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.papers.measured import statuses
from fedgrid.analysis.prose import captions, figure_captions
from fedgrid.analysis.scores.points import client_series
from fedgrid.analysis.scores.results import CELL, ROW, SAMPLE, Results
from fedgrid.analysis.scores.summary import SCORED
from fedgrid.components import LARGEST
from fedgrid.grid.study.codec import Limits


@dataclass(frozen=True)
class Measure:
    """What is drawn over the rounds."""

    title: str
    text: str
    axis: str
    scale: float = 1.0
    "What a value is multiplied by."
    decades: bool = False
    "Whether the axis is logarithmic where values span decades."


ACCURACY = Measure("Learning curves", "mean test accuracy", "Mean test accuracy (%)", 100)


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
    panels = results.panel_titles(data)
    window = window if window < means["round"].max() else 1
    values = smoothed(means, window) if window > 1 else means
    table = banded(values.assign(value=values["value"] * measure.scale), ["label", "heterogeneity", "round"])
    table = table.rename(columns={"heterogeneity": "panel", "round": "x"})
    stands_out = emphasis(results, data, set(table["label"]), colours)
    panel_limits = limits.limits(table, panels, True, stands_out.lines) if measure is ACCURACY else {}
    points = table.groupby("label")["x"].nunique()
    single = points.index[points == 1].tolist()  # a line of one point would not be seen
    x, y = "Communication round", measure.axis
    figure, axes = panelled(table, panels, results.names, x, y, narrow, single, stands_out, panel_limits)
    number_rounds(axes)
    if measure.decades and spans_decades(table["mean"]):
        logarithmic(axes[0], "y")
    name_ends(figure, dict(zip(panels, axes, strict=True)), table, results.names, stands_out, narrow)
    about = [*stands_out.sentences(results.names), *limits.sentences(table, panel_limits, results.names)]
    return figure, f"{measure.title} on {results.title(data)}", caption(results, data, measure, window, about)


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


def caption(results: Results, data: str, measure: Measure, window: int, about: list[str]) -> str:
    """What the lines are, what there is to say `about` colours and axes, and which lines are not there."""
    entries = entries_of(results, data)
    smooth = f"each point the mean over the evaluated rounds among the last {window}" if window > 1 else "unsmoothed"
    sentences = [
        f"{captions.lead(results)}: {measure.text} over clients, each weighted equally, against communication "
        f"rounds on {results.title(data)}, {smooth}.",
        *figure_captions.sampled(results, data),
        figure_captions.lines(results, figure_captions.with_scores(entries)),
        *about,
        *figure_captions.left_out(results, entries),
    ]
    return figure_captions.in_two(sentences, [figure_captions.scored_on(results, data)])
