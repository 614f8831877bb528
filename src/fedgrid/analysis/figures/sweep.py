"""Sweeps: accuracy over a setting that the study varies, of its heterogeneities or of a method."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from fedgrid.analysis.figures.common import limits
from fedgrid.analysis.figures.common.artifacts import MATRIX_WORDS, between_clients
from fedgrid.analysis.figures.common.emphasis import Emphasis, emphasis
from fedgrid.analysis.figures.common.lines import banded, name_ends, panelled, spans_decades
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.figures.common.varying import Family, families, partitions, rows, told_apart, varied
from fedgrid.analysis.figures.curves import ACCURACY, entries_of
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.papers.published import on_data
from fedgrid.analysis.prose import captions, figure_captions
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.results import ROW, Results
from fedgrid.analysis.scores.summary import SCORED, cell_scores
from fedgrid.grid.study.codec import Limits

POINT = ["panel", "line", "x", "label", "heterogeneity"]
"""An entry and its position."""


@dataclass(frozen=True)
class Swept:
    """The position of every entry of a table in the figure."""

    titles: dict[str, str]
    "Panels."
    names: dict[str, str]
    "Lines."
    points: pd.DataFrame
    "Columns as in `POINT`."
    marked: list[str]
    "Lines whose points have marks."


@dataclass(frozen=True)
class Options(FigureOptions):
    """What a study may say of it."""

    of_lines = True

    over: Annotated[str, Limits(filled=True)] = ""
    "The setting along x; by default the one that takes most values."
    names: Mapping[str, str] = field(default_factory=dict)
    "Setting → its words."
    matrix: Annotated[str, Limits(filled=True)] = ""
    "A matrix between clients that cells keep, whose mean between two clients is drawn in place of accuracy."


def draw_figure(results: Results, options: Options, data: str, narrow: bool = False, colours: bool = False) -> Drawn:
    """Accuracy on `data` over a setting; return the figure, its title and its caption.

    Where heterogeneities differ in it, there is a line a row, and a panel for each group of heterogeneities that differ
    in it alone. Where rows of a method do, there is a line for each such group of rows and a level line for every other
    row, and a panel a heterogeneity. Hollow marks are what the paper prints. `colours` as in `emphasis`. Raises as
    `varying.varied`, and `UserError` when the study has no such data set.
    """
    settings = partitions(results, data)
    over, of_columns = varied(settings, rows(results, data, results.heterogeneities(data)[0]), options.over)
    swept = (heterogeneity_sweep if of_columns else row_sweep)(results, data, over)
    # where rows are along x, they are what the figure is about, so that nothing is grey
    drawn = [line for line in swept.names if line in results.names]
    stands_out = emphasis(results, data, drawn, colours or len(drawn) < len(swept.names))
    word, matrix = options.names.get(over, over), options.matrix
    if matrix:
        measured, missing = between_clients(results, data, matrix)
        what = MATRIX_WORDS.get(matrix, matrix).capitalize()
        points = at_points(swept, banded(measured, ROW).drop(columns="data"))
        figure = plot(swept, points, word, what, stands_out, {}, narrow)[0]
        title = f"{what} over {word} on {results.title(data)}"
        sentences = [
            f"{captions.lead(results)}: mean {what.lower()} of two different clients in the last round, over {word} on "
            f"{results.title(data)}, seed {results.study.seeds[0]}.",
            *stands_out.sentences(swept.names),
            *off_axis_note(results, data, swept),
            *missing,
        ]
        return figure, title, " ".join(sentences)
    points, printed = at_points(swept, accuracies(results, data)), printed_points(results, data, swept)
    panel_limits = limits.limits(points, swept.titles, False, printed=printed)
    figure, panels = plot(swept, points, word, ACCURACY.y, stands_out, panel_limits, narrow)
    mark_printed(printed, stands_out.styles(swept.names), panels)
    title = f"Accuracy over {word} on {results.title(data)}"
    about = [
        *stands_out.sentences(swept.names),
        *(["Hollow marks: the paper's printed numbers."] if len(printed) else []),
        *limits.sentences(points, panel_limits, swept.names),
    ]
    return figure, title, caption(results, data, swept, word, stands_out.has_bands(points["label"]), about)


def at_points(swept: Swept, measured: pd.DataFrame) -> pd.DataFrame:
    """What is `measured`, as from `accuracies`, as a table for `lines.panelled`."""
    drawn = measured.merge(swept.points, on=["label", "heterogeneity"], how="right")
    drawn = drawn.assign(label=drawn["line"]).sort_values("x", kind="stable")
    return drawn[drawn.groupby(["panel", "line"])["mean"].transform("count") > 0]


def plot(
    swept: Swept, points: pd.DataFrame, x: str, y: str, stands_out: Emphasis, panel_limits: limits.Limits, narrow: bool
) -> tuple[Figure, dict[str, Axes]]:
    """The figure of the `points` of `at_points`, and its panels by name; `x` and `y` name the axes."""
    figure, panels = panelled(points, swept.titles, swept.names, x, y, narrow, swept.marked, stands_out, panel_limits)
    for ax in panels.values():
        place_ticks(ax, sorted(set(swept.points["x"])))
    name_ends(figure, panels, points, swept.names, stands_out, narrow)
    return figure, panels


def heterogeneity_sweep(results: Results, data: str, over: str) -> Swept:
    """Heterogeneities along x."""
    parts = [part for part in families(partitions(results, data), over) if len(part.members) > 1]
    texts = [common(results, part) for part in parts]
    shortened = [without_value(text) for text in texts]
    titles = {str(panel): text for panel, text in enumerate(shortened if len({*shortened}) == len(texts) else texts)}
    points = [
        (str(panel), label, x, label, heterogeneity)
        for panel, part in enumerate(parts)
        for heterogeneity, x in part.members.items()
        for label in results.names
    ]
    return Swept(titles, results.names, pd.DataFrame(points, columns=POINT), list(results.names))


def common(results: Results, part: Family) -> str:
    """The common part of some heterogeneities' titles, with "…" for the value in which they differ."""
    templates = []
    for name, value in part.members.items():
        text = results.heterogeneity_title(name)
        places = re.finditer(rf"(?<![\d.]){re.escape(f'{value:g}')}(?![\d.])", text)
        templates.append({f"{text[: match.start()]}…{text[match.end() :]}" for match in places})
    return min(set.intersection(*templates), default=results.heterogeneity_title(next(iter(part.members))))


def without_value(text: str) -> str:
    """The text of `common` without the phrase that begins with the value, such as "… apart", where there are others."""
    phrases = text.split(", ")
    return ", ".join(phrase for phrase in phrases if not phrase.startswith("…")) or text


def row_sweep(results: Results, data: str, over: str) -> Swept:
    """Rows of one method along x; every other row is as high everywhere."""
    panels = results.panel_titles(data)
    points = [(panel, *point, panel) for panel in panels for point in row_points(results, data, panel, over)]
    lines = dict.fromkeys(line for _, line, *_ in points)
    names = {line: results.names.get(line, line) for line in lines}
    drawn = [line for line in lines if line not in results.names]
    return Swept(panels, names, pd.DataFrame(points, columns=POINT), drawn)


def row_points(results: Results, data: str, heterogeneity: str, over: str) -> Iterator[tuple[str, float, str]]:
    """Line, x and label of every point of a panel of rows."""
    there = rows(results, data, heterogeneity)
    parts = [part for part in families(there, over) if len(part.members) > 1]
    for part, text in zip(parts, told_apart(parts), strict=True):
        row = results.study.methods[next(iter(part.members))]
        line = ", ".join(filter(None, [row.name or row.method, text]))  # whatever the rows are called
        yield from ((line, x, label) for label, x in part.members.items())
    values = [x for part in parts for x in part.members.values()]
    others = [label for label in there if not any(label in part.members for part in parts)]
    for label in others if values else ():
        yield from ((label, x, label) for x in (min(values), max(values)))


def accuracies(results: Results, data: str) -> pd.DataFrame:
    """`mean`, `low` and `high` over seeds in percent by label and heterogeneity, of entries that have a score."""
    entries = entries_of(results, data)
    scores = cell_scores(results)
    scores = scores[(scores["status"] == "ok") & scores["accuracy"].notna()]
    scores = scores.merge(entries.loc[entries["status"].isin(SCORED), ROW], on=ROW)
    return banded(scores.assign(value=scores["accuracy"] * ACCURACY.scale), ROW).drop(columns="data")


def place_ticks(ax: Axes, values: list[float]) -> None:
    """A tick at every value; a logarithmic axis where they span a decade."""
    if spans_decades(values):
        ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(values))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{value:g}" for value in values]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.margins(x=0.04)


def printed_points(results: Results, data: str, swept: Swept) -> pd.DataFrame:
    """The accuracies that the paper prints, in percent as `number`, with the columns of `POINT`."""
    if not results.published:
        return pd.DataFrame(columns=[*POINT, "number"])
    printed = on_data(results, data)
    printed = printed[(printed["metric"] == "accuracy") & printed["number"].notna()]
    labels = {name: label for label, name in results.names.items()}
    printed = printed.assign(label=printed["row"].map(labels), heterogeneity=printed["heterogeneity_key"])
    return printed[["label", "heterogeneity", "number"]].merge(swept.points, on=["label", "heterogeneity"])


def mark_printed(printed: pd.DataFrame, styles: Mapping[str, Mapping[str, Any]], panels: Mapping[str, Axes]) -> None:
    """Draw the `printed_points` as hollow marks."""
    for entry in printed.to_dict("records"):
        colour = styles[entry["line"]]["color"]
        look = {"marker": "D", "markersize": 6, "markerfacecolor": "none", "markeredgecolor": colour}
        panels[entry["panel"]].plot([entry["x"]], [entry["number"]], linestyle="none", **look)


def off_axis_note(results: Results, data: str, swept: Swept) -> list[str]:
    """A sentence on the heterogeneities that have no position on the axis."""
    there = set(swept.points["heterogeneity"])
    absent = [results.heterogeneity_title(name) for name in results.heterogeneities(data) if name not in there]
    return [f"Not drawn, for lack of a value: {listing(absent)}."] if absent else []


def caption(results: Results, data: str, swept: Swept, word: str, has_bands: bool, about: list[str]) -> str:
    """Sentences on lines, `about` marks, colours and axes, on missing lines and on entries without a position."""
    entries = entries_of(results, data)
    sentences = [
        f"{captions.lead(results)}: mean test accuracy over clients, each weighted equally, over {word} on "
        f"{results.title(data)}.",
        figure_captions.lines(results, figure_captions.with_scores(entries) & set(swept.names), has_bands),
        *about,
        *off_axis_note(results, data, swept),
        *figure_captions.left_out(results, entries),
    ]
    scores = cell_scores(results)
    protocol = captions.counted_rounds(results, scores[scores["data"] == data])
    return figure_captions.in_two(sentences, [figure_captions.scored_on(results, data), protocol])
