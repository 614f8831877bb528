"""Artifacts: the tables that a study keeps beside its cells' results, as figures read them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from fedgrid.analysis.figures.common.style import Undrawn
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.prose.prediction_captions import reason_for_none
from fedgrid.analysis.scores.cells import FinishedCell, absence
from fedgrid.analysis.scores.predictions import Tallies, tallies
from fedgrid.analysis.scores.results import ROW, Results
from fedgrid.files import read_table
from fedgrid.grid.plan.manifest_model import Cell

COOPERATION, REPRESENTATIONS = "cooperation", "representations"
"""Kinds of artifacts: matrices between clients, and the features of test images."""
LAST: Literal["last"] = "last"
"""A round of the option `rounds`: the last one that is kept."""
MATRIX_WORDS = {
    "graph": "cooperation weights",
    "similarity": "similarity of models",
    "complementarity": "overlap of features",
}
"""Matrix → its words; another one is called as its method calls it."""

Artifacts = list[tuple[FinishedCell, pa.Table]]
"""Cells, each with a table that is kept of it."""


def first_seed_tables(results: Results, data: str, kind: str) -> tuple[Artifacts, list[str]]:
    """The cells of `data` and the study's first seed that came to their end, each with its table of a `kind`.

    And sentences that name the other cells. Raises `UserError` when the study has no such data set, and `Undrawn` where
    no cell has such a table.
    """
    results.heterogeneities(data)
    seed = results.study.seeds[0]
    cell_tables: Artifacts = []
    others: dict[str, list[Cell]] = {}
    for cell in results.cells:
        if cell.data == data and cell.seed == seed:
            reason = absence(cell, kind)
            if not reason and isinstance(cell, FinishedCell):
                cell_tables.append((cell, read_table(cell.kept[kind])[0]))
            else:
                others.setdefault(reason, []).append(cell)
    if not any(len(table) for _, table in cell_tables):
        raise Undrawn(f"Nothing is drawn, because no cell of seed {seed} has kept its {kind} (artifacts: [{kind}]).")
    return cell_tables, [f"{what}, so not drawn: {cell_names(results, cells)}." for what, cells in others.items()]


def cell_names(results: Results, cells: Iterable[Cell]) -> str:
    """Cells of one data set and seed, by row and heterogeneity."""
    return listing(f"{results.names[cell.label]} ({results.heterogeneity_title(cell.heterogeneity)})" for cell in cells)


def predictions_of(results: Results, data: str) -> Tallies:
    """What the kept predictions of the cells of `data` add up to.

    Raises `UserError` when the study has no such data set, and `Undrawn` where no cell has predictions of the model
    that scores it.
    """
    results.heterogeneities(data)
    predictions = tallies(results, data)
    if not predictions.by_cell:
        raise Undrawn(f"Nothing is drawn, because {reason_for_none(predictions)}.")
    return predictions


def matrices(table: pa.Table, rounds: Sequence[int | str]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Each of the `rounds` with its values [client, other] by the name of their matrix; `Undrawn` for an unkept one."""
    frame = table.to_pandas().astype({"matrix": "str"})
    known = [int(round_) for round_ in frame["round"].unique()]
    for round_ in rounds:
        if round_ != LAST and round_ not in known:
            raise Undrawn(f"No matrices of round {round_} are kept; rounds: {', '.join(map(str, known))}.")
        round_ = known[-1] if round_ == LAST else int(round_)
        parts = frame[frame["round"] == round_].groupby("matrix", sort=False)
        squares = {str(name): part.pivot(index="client", columns="other", values="value") for name, part in parts}
        yield round_, {name: square.to_numpy() for name, square in squares.items()}


def between_clients(results: Results, data: str, name: str) -> tuple[pd.DataFrame, list[str]]:
    """The mean value of one matrix between two different clients, in the last round that is kept of the first seed.

    Columns as in `ROW` and `value`, a row a cell on `data`; and sentences that name the rows and cells without it.
    Raises `UserError` when the study has no such data set, and `Undrawn` where no cell has kept such a matrix.
    """
    cell_tables, lost = first_seed_tables(results, data, COOPERATION)
    values, without = [], {}
    for cell, table in cell_tables:
        matrices_of_last = next(matrices(table, (LAST,)))[1] if len(table) else {}
        if name in matrices_of_last:
            others = ~np.eye(len(matrices_of_last[name]), dtype=bool)
            values.append([*cell.entry, float(matrices_of_last[name][others].mean())])
        else:
            without[cell.label] = results.names[cell.label]
    if not values:
        raise Undrawn(f"Nothing is drawn, because no cell has kept a matrix '{name}'.")
    sentences = [f"Without {MATRIX_WORDS.get(name, name)}: {listing(without.values())}."] if without else []
    return pd.DataFrame(values, columns=[*ROW, "value"]), [*sentences, *lost]
