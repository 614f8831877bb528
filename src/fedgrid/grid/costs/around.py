"""What a run takes before, between and after its cells: to begin, to prepare data and partitions, to make pages.

Measured on two cores of an AMD EPYC: digits with 8 and 70 cells, and CIFAR-10 from JPEGs.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedgrid.grid.plan.instances import info_of
from fedgrid.grid.plan.model import Cell, PlannedDataset
from fedgrid.grid.plan.planned_study import Study

BEGIN, PER_PAGE = 9.0, 8.0
"Seconds of a run's start and end, and of an experiment's tables, figures and page."
PER_DATASET, NUMBERS_A_SECOND = 2.0, 14e6
"Seconds of a data set that is not in the store, and numbers in its images that are converted in one."
PER_PARTITION = 1.0


def around(studies: Sequence[Study], to_train: Iterable[Cell], cores: int) -> float:
    """Seconds that runs of some studies take beside training the cells that are left; 0 where none is."""
    cells = list(to_train)
    if not cells:
        return 0.0
    data = {cell.partition.data.key: cell.partition.data for cell in cells if not cell.partition.data.built}
    partitions = {cell.partition.file for cell in cells if not cell.partition.file.is_file()}
    keys = {cell.key for cell in cells}
    pages = [sum(any(cell.key in keys for cell in one.cells) for one in study.experiments) for study in studies]
    root = {one.key: study.data_root for study in studies for one in study.datasets.values()}
    return (
        sum(BEGIN + PER_PAGE * math.ceil(number / cores) for number in pages if number)
        + sum(_seconds_of(one, root.get(key)) for key, one in data.items())
        + PER_PARTITION * len(partitions) / cores
    )


def _seconds_of(data: PlannedDataset, root: Path | None) -> float:
    info = info_of((data.images or data).component, root)
    return PER_DATASET + sum(info.images.values()) * math.prod(info.shape) / NUMBERS_A_SECOND
