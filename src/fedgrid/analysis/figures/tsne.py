"""Representations of test images as t-SNE draws them, one panel a row and heterogeneity."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis.figures.common.artifacts import REPRESENTATIONS, first_seed_tables
from fedgrid.analysis.figures.common.palette import COLOURS, MORE
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.results import Results, choose
from fedgrid.grid.study.codec import Limits
from fedgrid.partition.common.publish import opened

COLOURED = {"class": "label", "client": "client"}
"""What colours may stand for → the column of kept representations that says it."""
SIDE = 2.3
"""Of a panel, in inches."""
RANDOM_STATE = 0
"""Of t-SNE, and of the draw of images."""
MARKERS = "o^s"
CLASSES = [*COLOURS, *MORE]
MOST_NAMES = len(CLASSES) * len(MARKERS)
"""Classes or clients that colour and mark tell apart; more are on a continuous scale."""
SCALE = "viridis"
FEWEST = 5
"""Images of which t-SNE can draw something."""


@dataclass(frozen=True)
class Options(FigureOptions):
    """What a study may say of it."""

    colour: Literal["class", "client"] = "class"
    "What colours stand for."
    points: Annotated[int, Limits(low=FEWEST)] = 1000
    "Test images of all clients together that are drawn at most, the same ones in all panels of a heterogeneity."
    perplexity: Annotated[float, Limits(above=1)] = 30.0
    "Of t-SNE."


def draw_figure(results: Results, options: Options, data: str) -> Drawn:
    """Heterogeneities of `data` as rows of panels, methods as columns; return the figure, its title and its caption.

    Of the study's first seed. Raises `UserError` when the study has no
    such data set, and `Undrawn` when no cell of it has kept representations.
    """
    cell_tables, sentences = first_seed_tables(results, data, REPRESENTATIONS)
    column = COLOURED[choose(options.colour, list(COLOURED), "colour")]
    tables = {
        (cell.heterogeneity, cell.label): thinned(table, options.points) for cell, table in cell_tables if len(table)
    }
    down = [name for name in results.heterogeneities(data) if name in {name for name, _ in tables}]
    across = [label for label in results.names if label in {label for _, label in tables}]
    number = 1 + max(max(table[column].to_pylist()) for table in tables.values())
    figure = Figure(figsize=(SIDE * len(across) + 1.2, (SIDE + 0.1) * len(down) + 0.3), layout="constrained")
    grid = figure.subplots(len(down), len(across), squeeze=False)
    for heterogeneity, line in zip(down, grid, strict=True):
        for label, ax in zip(across, line, strict=True):
            ax.set(xticks=[], yticks=[], xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), aspect="equal")
            if (heterogeneity, label) in tables:
                table = tables[heterogeneity, label]
                draw(ax, embedded(table, options.perplexity), table[column].to_numpy(), number)
        line[0].set_ylabel(results.heterogeneity_title(heterogeneity))
    for label, ax in zip(across, grid[0], strict=True):
        ax.set_title(results.names[label])
    classes = opened(cell_tables[0][0].partition)[1]["classes"]
    names = classes if options.colour == "class" else list(map(str, range(number)))
    explain(figure, names[:number], options.colour.capitalize())
    counts = listing(dict.fromkeys(f"{len(table):,}" for table in tables.values()))
    below = " ".join([*caption(results, data, counts, options.perplexity), *sentences])
    return figure, f"Representations on {results.title(data)}", below


def thinned(table: pa.Table, points: int) -> pa.Table:
    """At most so many rows, drawn by position only: tables of equal length keep the same rows."""
    if len(table) <= points:
        return table
    return table.take(np.sort(np.random.default_rng(RANDOM_STATE).choice(len(table), points, replace=False)))


def embedded(table: pa.Table, perplexity: float) -> np.ndarray:
    """Where t-SNE puts the representations, [n, 2]: centred, the furthest point at distance 1."""
    from sklearn.manifold import TSNE  # imported late: it takes a second
    from threadpoolctl import threadpool_limits

    z = np.stack(table["representation"].to_numpy())
    if len(z) < FEWEST:
        return np.zeros((len(z), 2))
    model = TSNE(perplexity=min(perplexity, (len(z) - 1) / 3), init="pca", random_state=RANDOM_STATE)
    with threadpool_limits(1):  # sums of several threads differ in their last bits, and t-SNE makes more of that
        positions: np.ndarray = model.fit_transform(z).astype(float)
    positions -= positions.mean(axis=0)
    return positions / max(float(np.linalg.norm(positions, axis=1).max()), 1e-12)


def draw(ax: Axes, places: np.ndarray, groups: np.ndarray, number: int) -> None:
    """Draw points [n, 2] in the style of their `groups` [n], numbers below `many`."""
    x, y = places.T
    size = float(np.clip(4000 / max(len(places), 1), 2, 14))
    if number > MOST_NAMES:
        ax.scatter(x, y, s=size, c=groups, cmap=SCALE, vmin=0, vmax=number - 1, linewidths=0)
        return
    for group in np.unique(groups):
        ax.scatter(x[groups == group], y[groups == group], s=size, linewidths=0, alpha=0.8, **look(int(group)))


def look(group: int) -> dict[str, Any]:
    """Colour and mark of a class or client; neighbours differ in both, and the first ten in colour."""
    return {"color": CLASSES[group % len(CLASSES)], "marker": MARKERS[group % len(MARKERS)]}


def explain(figure: Figure, names: list[str], title: str) -> None:
    """Explain the looks: by name, or as a scale where there are many."""
    if len(names) > MOST_NAMES:
        scale = ScalarMappable(Normalize(0, len(names) - 1), SCALE)
        figure.colorbar(scale, ax=figure.axes, label=title, ticks=MaxNLocator(8, integer=True), aspect=30)
        return
    handles = [
        Line2D([], [], ls="", markersize=5, markeredgewidth=0, label=name, **look(group))
        for group, name in enumerate(names)
    ]
    figure.legend(handles=handles, loc="outside right center", title=title, fontsize="small", labelspacing=0.3)


def caption(results: Results, data: str, counts: str, perplexity: float) -> list[str]:
    """How the points are made; `counts` are the numbers of images that are drawn."""
    return [
        f"{captions.lead(results)}: representations of the clients' test images on {results.title(data)} after "
        f"the last round, each under the model that its client uses, seed {results.study.seeds[0]}.",
        f"Drawn by scikit-learn's t-SNE from PCA (perplexity {perplexity:g}, random state {RANDOM_STATE}) of {counts} "
        "images, drawn at random from all clients and the same ones in all panels of a row.",
        "t-SNE has no units: every panel is centred, and its furthest point lies at distance 1.",
    ]
