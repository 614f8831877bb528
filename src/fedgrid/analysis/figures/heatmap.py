"""Who cooperates with whom: matrices between clients, as heat maps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis.figures.common import artifacts
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.results import Results
from fedgrid.grid.study.codec import Limits
from fedgrid.partition.common.publish import opened
from fedgrid.partition.common.statistics import class_counts

DATA = "Similarity of local data"
SIGNED = (DATA, artifacts.MATRIX_WORDS["similarity"])
"""Cosines, whose scale ends at 1."""
PANEL = (2.7, 2.4)
"""Width and height of a panel in inches."""
SCALE = "cividis"


@dataclass(frozen=True)
class Matrix:
    """One panel: `values` [client, other] of the `kind` that shares its scale of colours."""

    kind: str
    title: str
    values: np.ndarray


@dataclass(frozen=True)
class Options(FigureOptions):
    """What a study may say of it."""

    rounds: Annotated[list[Literal["last"] | Annotated[int, Limits(low=1)]], Limits(filled=True, unique=True)] = field(
        default_factory=lambda: [artifacts.LAST]
    )
    "Rounds whose matrices are drawn: their numbers, or ``last``."


def draw_figure(results: Results, options: Options, data: str) -> Drawn:
    """One panel a matrix, round and row of `data`; return the figure, its title and its caption.

    Of the study's first seed; for each heterogeneity, the similarity of the clients' data stands first. Matrices that
    are zero everywhere are left out: the row does not use them. Raises `UserError` when the study has no such data set,
    and `Undrawn` when no cell has kept cooperation, or not that of a round.
    """
    cell_tables, lost = artifacts.first_seed_tables(results, data, artifacts.COOPERATION)
    lines = list(lines_of(results, data, cell_tables, options.rounds))
    panels = [panel for line in lines for panel in line]
    weights = [panel for panel in panels if panel.kind == artifacts.MATRIX_WORDS["graph"]]
    own_weights = [f"{panel.title.rpartition(':')[0]} {np.diagonal(panel.values).mean():.2f}" for panel in weights]
    unused = [panel.title for panel in panels if not panel.values.any()]
    without = [cell for cell, table in cell_tables if not len(table)]
    sentences = [
        f"{captions.lead(results)}: what clients (rows) take from others (columns) on {results.title(data)}, seed "
        f"{results.study.seeds[0]}. Panels of one kind share a scale of colours.",
        f"{DATA}: the cosine of the clients' numbers of training images by class.",
        *([f"Mean weight of a client's own model: {listing(own_weights)}."] if own_weights else []),
        *([f"Zero everywhere, so not drawn: {listing(unused)}."] if unused else []),
        *([f"Without matrices between clients: {artifacts.cell_names(results, without)}."] if without else []),
        *lost,
    ]
    figure = draw([[panel for panel in line if panel.values.any()] for line in lines])
    return figure, f"Cooperation on {results.title(data)}", " ".join(sentences)


def lines_of(
    results: Results, data: str, cell_tables: artifacts.Artifacts, rounds: Sequence[int | str]
) -> Iterator[list[Matrix]]:
    """For each heterogeneity the panel of its data, then the panels of each row and round."""
    several = len(results.heterogeneities(data)) > 1
    for heterogeneity in results.heterogeneities(data):
        where = f", {results.heterogeneity_title(heterogeneity)}" if several else ""
        cells = [(cell, table) for cell, table in cell_tables if cell.heterogeneity == heterogeneity and len(table)]
        if cells:
            yield [Matrix(DATA, DATA + where, data_similarity(cells[0][0].partition))]
        for cell, table in cells:
            for round_, by_name in artifacts.matrices(table, rounds):
                words = {artifacts.MATRIX_WORDS.get(name, name): values for name, values in by_name.items()}
                head = f"{results.names[cell.label]}{where}, round {round_}"
                yield [Matrix(kind, f"{head}: {kind}", values) for kind, values in words.items()]


def data_similarity(partition: Path) -> np.ndarray:
    """Cosines [client, other] of the class counts of training images; 0 for a client without any."""
    table, about = opened(partition)
    counts = class_counts(table, about["clients"], len(about["classes"]))[0].astype(float)
    unit = counts / np.linalg.norm(counts, axis=1, keepdims=True).clip(1e-12)
    return np.asarray(unit @ unit.T)


def draw(lines: Sequence[Sequence[Matrix]]) -> Figure:
    """The panels line by line, each with the scale of its kind."""
    lines = [line for line in lines if line]
    panels = [panel for line in lines for panel in line]
    across = max(map(len, lines))
    figure = Figure(figsize=(PANEL[0] * across + 0.3, PANEL[1] * len(lines) + 0.2), layout="constrained")
    for line, axes in zip(lines, figure.subplots(len(lines), across, squeeze=False), strict=True):
        for panel, ax in zip(line, axes, strict=False):
            image = ax.imshow(panel.values, cmap=SCALE, interpolation="nearest", **limits(panels, panel.kind))
            figure.colorbar(image, ax=ax, ticks=MaxNLocator(4), shrink=0.8)
            ax.set_title(fill(panel.title, 34), fontsize="medium")
            ax.set(xlabel="Other client", ylabel="Client")
            for axis in (ax.xaxis, ax.yaxis):
                axis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
            ax.grid(visible=False)
        for ax in axes[len(line) :]:
            ax.remove()
    return figure


def limits(panels: Sequence[Matrix], kind: str) -> dict[str, Any]:
    """Where the scale of a kind begins and ends: at zero, or below it where there are negative values."""
    values = np.concatenate([panel.values.ravel() for panel in panels if panel.kind == kind])
    return {"vmin": min(0.0, float(values.min())), "vmax": 1.0 if kind in SIGNED else float(values.max())}
