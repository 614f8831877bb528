"""Ablation bars: one method and its variants."""

from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis.figures.common.palette import COLOURS
from fedgrid.analysis.figures.common.style import ABOVE, WHISKERS, Drawn
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.figure_captions import in_two, missing_cells
from fedgrid.analysis.scores.results import CELL, Results, choose
from fedgrid.analysis.scores.summary import SCORED, cell_scores, summary
from fedgrid.errors import UserError

CROWDED = 0.5
"""The axis starts above zero when every accuracy is above this part of the highest one."""

NARROWEST = 0.5
"""Points that the axis covers at least."""


class Options(FigureOptions):
    """There is nothing to choose."""

    subject = "method"


def draw_figure(results: Results, options: Options, method: str, data: str) -> Drawn:
    """Bars of the score of `method`'s variants, grouped by heterogeneity; return the figure, its title and its caption.

    Raises `UserError` when the study has no such data set or fewer than two variants of the method.
    """
    methods = results.study.methods
    choose(method, sorted({entry.method for entry in methods.values()}), "method")
    variants = [label for label, entry in methods.items() if entry.method == method]
    if len(variants) < 2:
        raise UserError(f"the study has only one variant of “{method}”, so there is nothing to compare.")
    groups = results.heterogeneities(data)
    table = summary(results)
    table = table[table["label"].isin(variants) & (table["data"] == data)].set_index(["heterogeneity", "label"])
    floor = axis_floor(table[table["status"].isin(SCORED)])
    figure = Figure(figsize=(1.6 + 0.62 * len(variants) * len(groups), 3.0), layout="constrained")
    ax = figure.subplots()
    for i, label in enumerate(variants):
        draw_variant(ax, i, len(variants), results.names[label], table.loc[[(group, label) for group in groups]], floor)
    ax.set_xticks(
        range(len(groups)), [fill(results.heterogeneity_title(group), 11 * len(variants)) for group in groups]
    )
    ax.set_xlim(-0.5, len(groups) - 0.5)  # a variant without a bar has its place too
    ax.set_ylim(bottom=floor)
    ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 5, 10]))
    ax.set_ylabel("Mean test accuracy (%)" + (f"\naxis starts at {floor:g} %" if floor else ""))
    ax.grid(axis="x", visible=False)
    figure.legend(loc="outside upper center", ncols=min(len(variants), 4))
    title = f"Variants of {name_of(results, method)} on {results.title(data)}"
    return figure, title, caption(results, method, data, floor, table.reset_index())


def name_of(results: Results, method: str) -> str:
    """The method's own title, whatever its rows are called."""
    return next(row.name or method for row in results.study.methods.values() if row.method == method)


def axis_floor(entries: pd.DataFrame) -> float:
    """Where the axis starts in percent: at zero, unless that would hide the differences; else at a round number."""
    spread = entries["accuracy_std_seeds"].fillna(0)
    low, high = (entries["accuracy"] - spread).min() * 100, (entries["accuracy"] + spread).max() * 100
    if entries.empty or low < CROWDED * high:
        return 0.0
    span = max(high - low, NARROWEST)
    step = 5 if span > 5 else 1
    return max(0.0, float(step * np.floor((low - span / 2) / step)))


def draw_variant(ax: Axes, i: int, n: int, name: str, entries: pd.DataFrame, floor: float) -> None:
    """Draw the i-th of `n` variants: one bar a heterogeneity with its value, or a word where it has no score."""
    width = 0.84 / n
    x = np.arange(len(entries)) + (i - (n - 1) / 2) * width
    ok = entries["status"].isin(SCORED).to_numpy()
    height = (entries["accuracy"] * 100).where(ok).to_numpy()
    spread = (entries["accuracy_std_seeds"] * 100).where(ok).fillna(0).to_numpy()
    ax.bar(x, height, width * 0.92, label=name, color=COLOURS[i % len(COLOURS)], alpha=0.85)
    with_spread = ok & (spread > 0)
    ax.errorbar(x[with_spread], height[with_spread], spread[with_spread], elinewidth=1, capsize=2.5, **WHISKERS)
    for j, status in enumerate(entries["status"]):
        top, text, turn = (height[j] + spread[j], f"{height[j]:.2f}", 0) if ok[j] else (floor, status, 90)
        ax.annotate(text, (x[j], top), (0, 3), rotation=turn, fontsize=7.5, **ABOVE)


def caption(results: Results, method: str, data: str, floor: float, entries: pd.DataFrame) -> str:
    """What the bars are; `floor` is where the axis of accuracy starts, in percent.

    `entries` are the rows of `scores.summary` that they show.
    """
    cells = [cell for cell in results.finished if cell.method == method and cell.data == data]
    spread = f"; whiskers: ± sample standard deviation over seeds ({captions.varied(results)})"
    several = len(results.study.seeds) > 1
    sentences = [
        f"{captions.lead(results)}: variants of {name_of(results, method)} on {results.title(data)}.",
        "Bars: mean test accuracy over clients, each weighted equally, over "
        f"{captions.seeds(results)}{spread if several else ''}.",
        f"The axis starts at {floor:g} %, not at zero." if floor else "The axis starts at zero.",
        *missing_cells(results, entries),
    ]
    scores = cell_scores(results).merge(pd.DataFrame([cell.table_position for cell in cells], columns=CELL), on=CELL)
    return in_two(sentences, [captions.scored_at(results, cells), captions.counted_rounds(results, scores)])
