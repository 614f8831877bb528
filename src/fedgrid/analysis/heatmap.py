"""Who cooperates with whom: matrices between clients, as heat maps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis import captions, kept
from fedgrid.analysis.results import Results
from fedgrid.analysis.style import Undrawn
from fedgrid.analysis.words import listing
from fedgrid.partition.common.publish import opened
from fedgrid.partition.common.statistics import class_counts

KIND = "cooperation"
LAST = "last"
"""A round of the option `rounds`: the last one that is kept."""
WORDS = {
    "graph": "cooperation weights",
    "similarity": "similarity of models",
    "complementarity": "overlap of features",
}
"""Matrix → its words; another one is called as its method calls it."""
DATA = "similarity of local data"
SIGNED = (DATA, WORDS["similarity"])
"""Cosines, whose scale ends at 1."""
FEWEST, MOST = 3, 6
"""Panels side by side."""
PANEL = (2.7, 2.4)
"""Width and height of a panel in inches."""
SCALE = "cividis"


@dataclass(frozen=True)
class Matrix:
    """One panel: `values` [client, other] of the `kind` that shares its scale of colours."""

    kind: str
    title: str
    values: np.ndarray


def heatmap(results: Results, data: str, rounds: Sequence[int | str] = (LAST,)) -> tuple[Figure, str, str]:
    """One panel a matrix, round and row of `data`; return the figure, its title and its caption.

    Of the study's first seed; for each heterogeneity, the similarity of the clients' data stands first. `rounds` are
    numbers of rounds, or "last". Matrices that are zero everywhere are left out: the row does not use them. Raises
    `UserError` when the study has no such data set, and `Undrawn` when no cell has kept cooperation, or not that of a
    round.
    """
    there, sentences = kept.of_first_seed(results, data, KIND)
    panels: list[Matrix] = []
    for heterogeneity in results.heterogeneities(data):
        cells = [(cell, table) for cell, table in there if cell["heterogeneity"] == heterogeneity and len(table)]
        where = f", {results.words(heterogeneity)}" if len(results.heterogeneities(data)) > 1 else ""
        for number, (cell, table) in enumerate(cells):
            if number == 0:
                panels.append(Matrix(DATA, f"{DATA.capitalize()}{where}", of_data(Path(cell["partition"]))))
            for round_, name, values in matrices(table, rounds):
                title = f"{results.names[cell['label']]}: {WORDS.get(name, name)}, round {round_}{where}"
                panels.append(Matrix(WORDS.get(name, name), title, values))
    draws = [panel for panel in panels if panel.values.any()]
    figure = draw(draws)
    unused = [panel.title for panel in panels if not panel.values.any()]
    without = [cell for cell, table in there if not len(table)]
    sentences = [
        f"{captions.lead(results)}: what clients (rows) take from others (columns) on {results.title(data)}, seed "
        f"{results.study['seeds'][0]}. Panels of one kind share a scale of colours.",
        f"{DATA.capitalize()}: the cosine of the clients' numbers of training images by class.",
        *([f"Zero everywhere, so not drawn: {listing(unused)}."] if unused else []),
        *([f"Without matrices between clients: {kept.names(results, without)}."] if without else []),
        *sentences,
    ]
    return figure, f"Cooperation on {results.title(data)}", " ".join(sentences)


def of_data(partition: Path) -> np.ndarray:
    """Cosines [client, other] of the class counts of training images; 0 for a client without any."""
    table, about = opened(partition)
    counts = class_counts(table, about["clients"], len(about["classes"]))[0].astype(float)
    unit = counts / np.linalg.norm(counts, axis=1, keepdims=True).clip(1e-12)
    return np.asarray(unit @ unit.T)


def matrices(table: pa.Table, rounds: Sequence[int | str]) -> Iterator[tuple[int, str, np.ndarray]]:
    """Round, name and values [client, other] of the matrices of the `rounds` asked for; `Undrawn` for an unkept one."""
    frame = table.to_pandas().astype({"matrix": "str"})
    known = [int(round_) for round_ in frame["round"].unique()]
    for asked in rounds:
        if asked != LAST and asked not in known:
            raise Undrawn(f"No matrices of round {asked} are kept; rounds: {', '.join(map(str, known))}.")
        round_ = known[-1] if asked == LAST else int(asked)
        for name, part in frame[frame["round"] == round_].groupby("matrix", sort=False):
            yield round_, str(name), part.pivot(index="client", columns="other", values="value").to_numpy()


def draw(panels: Sequence[Matrix]) -> Figure:
    """The panels row by row, each with the scale of its kind."""
    across = min(len(panels), max(FEWEST, min(MOST, math.isqrt(len(panels)))))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(PANEL[0] * across + 0.3, PANEL[1] * down + 0.2), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for ax, panel in zip(axes, panels, strict=False):
        image = ax.imshow(panel.values, cmap=SCALE, interpolation="nearest", **limits(panels, panel.kind))
        figure.colorbar(image, ax=ax, ticks=MaxNLocator(4), shrink=0.8)
        ax.set_title(fill(panel.title, 34), fontsize="medium")
        ax.set(xlabel="Other client", ylabel="Client")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
        ax.grid(visible=False)
    for ax in axes[len(panels) :]:
        ax.remove()
    return figure


def limits(panels: Sequence[Matrix], kind: str) -> dict[str, Any]:
    """Where the scale of a kind begins and ends: at zero, or below it where there are negative values."""
    values = np.concatenate([panel.values.ravel() for panel in panels if panel.kind == kind])
    return {"vmin": min(0.0, float(values.min())), "vmax": 1.0 if kind in SIGNED else float(values.max())}
