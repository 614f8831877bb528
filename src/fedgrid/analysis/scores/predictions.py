"""Kept predictions, added up: which class is taken for which, and how far confidence agrees with accuracy.

An image counts once for each client that is tested on it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.analysis.scores.cells import FinishedCell, absence
from fedgrid.analysis.scores.points import POINTS
from fedgrid.analysis.scores.results import Results
from fedgrid.files import read_metadata, read_table
from fedgrid.grid.plan.manifest_model import Cell

PREDICTIONS = "predictions"
"""The kind of artifact."""
WHERE = POINTS | {"validated": "of the model that validation images choose"}
"""Point of a round, or other score → how captions say that there are no predictions."""
COLUMNS = ("point", "client", "label", "predicted", "probability")
"""Columns of the kept table that are read."""
BINS = 15
"""Bins of confidence, of equal width: Guo et al., On Calibration of Modern Neural Networks, ICML 2017."""
EDGES = np.linspace(0, 1, BINS + 1, dtype=np.float32)
"""A confidence on an edge is in the lower one of the two bins, as in their code."""


@dataclass(frozen=True, eq=False)
class Tally:
    """What predictions add up to."""

    confusion: np.ndarray
    "Images by true class (row) and predicted class, int64 [classes, classes]."
    images: np.ndarray
    "Images by bin of confidence, int64 [BINS]."
    correct: np.ndarray
    "Those of them that are predicted right, int64 [BINS]."
    confidence: np.ndarray
    "The sum of their probabilities of the predicted class, float64 [BINS]."

    def __add__(self, other: "Tally") -> "Tally":
        number = max(len(self.confusion), len(other.confusion))
        return Tally(
            widened(self.confusion, number) + widened(other.confusion, number),
            self.images + other.images,
            self.correct + other.correct,
            self.confidence + other.confidence,
        )

    @property
    def images_of_class(self) -> np.ndarray:
        """Images by true class, int64 [classes]."""
        return np.asarray(self.confusion.sum(axis=1))

    @property
    def class_accuracy(self) -> np.ndarray:
        """The share of each class's images that are predicted right [classes]; NaN for a class without images."""
        return shares(np.diagonal(self.confusion), self.images_of_class)

    @property
    def calibration_error(self) -> float:
        """The expected calibration error: |accuracy − mean confidence| of the bins, weighted by their images."""
        return float(np.abs(self.correct - self.confidence).sum() / self.images.sum())


@dataclass(frozen=True)
class Tallies:
    """Cells, each with what its predictions add up to; and the others, by the reason why they have none."""

    by_cell: list[tuple[FinishedCell, Tally]]
    absent: dict[str, list[Cell]]

    @property
    def cells(self) -> list[FinishedCell]:
        """The cells that have predictions."""
        return [cell for cell, _ in self.by_cell]

    @property
    def by_entry(self) -> dict[tuple[str, str, str], list[Tally]]:
        """(label, data, heterogeneity) → what there is, seed by seed."""
        entries: dict[tuple[str, str, str], list[Tally]] = {}
        for cell, tally in self.by_cell:
            entries.setdefault(cell.entry, []).append(tally)
        return entries


def widened(confusion: np.ndarray, number: int) -> np.ndarray:
    """The counts [classes, classes] with classes without images at the end, so that there are at least so many."""
    return np.pad(confusion, (0, max(number - len(confusion), 0)))


def shares(parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
    """`parts` / `wholes`; NaN where there is nothing."""
    return np.where(wholes > 0, parts / np.maximum(wholes, 1), np.nan)


def tallies(results: Results, data: str | None = None) -> Tallies:
    """What the kept predictions of the cells of `data`, or of all cells, add up to, at the point that scores each."""
    of_cells: list[tuple[FinishedCell, Tally]] = []
    absent: dict[str, list[Cell]] = {}
    for cell in (cell for cell in results.cells if data in (None, cell.data)):
        reason = absence(cell, PREDICTIONS)
        if not reason and isinstance(cell, FinishedCell):
            point = results.point(cell) or ""
            rows = at_point(read_table(cell.kept[PREDICTIONS], COLUMNS)[0], point)
            if len(rows):
                of_cells.append((cell, tally(rows)))
                continue
            reason = f"Without predictions {WHERE.get(point, point)}"
        absent.setdefault(reason, []).append(cell)
    return Tallies(of_cells, absent)


def at_point(table: pa.Table, point: str) -> pa.Table:
    """The rows of one point of the round; as in the scores, clients that sat it out count as trained as they are."""
    rows = table.filter(pc.equal(table["point"], point))
    if point != "trained" or not len(rows):
        return rows
    received = table.filter(pc.equal(table["point"], "received"))
    idle = pc.invert(pc.is_in(received["client"], pc.unique(rows["client"])))
    return pa.concat_tables([rows, received.filter(idle)])


def tally(rows: pa.Table) -> Tally:
    """What predictions add up to, at least one."""
    label, predicted, probability = (rows[name].to_numpy() for name in ("label", "predicted", "probability"))
    classes = 1 + int(max(label.max(), predicted.max()))
    places = label.astype(np.int64) * classes + predicted
    bins = np.searchsorted(EDGES[1:-1], probability)
    return Tally(
        np.bincount(places, minlength=classes**2).reshape(classes, classes),
        np.bincount(bins, minlength=BINS),
        np.bincount(bins[label == predicted], minlength=BINS),
        np.bincount(bins, probability.astype(float), minlength=BINS),
    )


def pooled(parts: Iterable[Tally]) -> Tally:
    """All of them together, at least one."""
    return reduce(Tally.__add__, parts)


def class_names(results: Results, data: str, number: int) -> list[str]:
    """The names of the classes of a data set, as a partition of it has them; else `number` numbers, from 0."""
    files = dict.fromkeys(cell.partition for cell in results.cells if cell.data == data)
    names: list[str] = next((read_metadata(file)["classes"] for file in files if file.is_file()), [])
    return names if len(set(names)) >= number else list(map(str, range(number)))


def weighted_columns(results: Results, cells: Iterable[Cell]) -> list[tuple[str, str]]:
    """The columns of `cells` whose accuracies weight test images by class."""
    files = {cell.column: cell.partition for cell in cells if cell.partition.is_file()}
    weighted = {column for column, file in files.items() if read_metadata(file).get("test") == "weighted"}
    return [column for column in results.columns if column in weighted]
