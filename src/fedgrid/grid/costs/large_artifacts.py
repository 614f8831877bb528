"""The disk that final models and states of cells will take, where studies keep them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fedgrid.grid.costs.forecast import Loads, Trial, id_of
from fedgrid.grid.costs.measured import size_of_artifact
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.catalog import description

STACKS = 3
"""Models that a client may have of its own, beside one that all share: at three points of a round, or, in a state, one
to use and what a method remembers of it."""


@dataclass(frozen=True)
class FilesToCome:
    """The models or states of cells without results."""

    cells: int
    size: float
    "In bytes."
    at_most: bool
    "Whether there are cells without a finished one like them, which count as if each client had `STACKS` models."
    carriers: tuple[str, ...]
    "Rows without a finished cell whose models hold more than parameters, which no formula counts."


def files_to_come(kind: str, studies: Iterable[Study], sizes: Callable[[list[Trial]], Sequence[int]]) -> FilesToCome:
    """The artifacts of a kind, ``models`` or ``state``, of every cell of some studies, once.

    `sizes` gives the numbers in the network of each trial.
    """
    loads, cells, measured = Loads(), 0, 0.0
    bounds: list[tuple[Trial, int]] = []
    carriers: dict[str, None] = {}
    every = ((cell, study) for study in studies for cell in study.by_key.values())
    keeping = {id_of(cell): (cell, study) for cell, study in every if kind in cell.artifacts and cell.waiting}
    for cell, study in keeping.values():
        cells += 1
        if (size := size_of_artifact(cell, kind)) is not None:
            measured += size
            continue
        bounds.append(_bound(cell, study, loads))
        if kind == "models" and description("methods", cell.row.component.reference)["facts"]["carries"]:
            carriers[cell.row.title] = None
    trials = {trial.name: trial for trial, _ in bounds}
    size_of = dict(zip(trials, sizes(list(trials.values())), strict=True)) if trials else {}
    bounded = sum(bytes_a_number * size_of[trial.name] for trial, bytes_a_number in bounds)
    return FilesToCome(cells, measured + bounded, bool(bounds), tuple(carriers))


def _bound(cell: Cell, study: Study, loads: Loads) -> tuple[Trial, int]:
    """What a cell without precedent keeps at most, in all its models: so many bytes a number in the trial's network."""
    trial = loads.of(cell, study.data_root).trial
    clients = loads.images[cell.partition.key, cell.partition.seed].clients
    return trial, (1 + STACKS * clients) * (8 if cell.row.training.dtype == "float64" else 4)
