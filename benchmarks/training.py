"""Trains a study's cells without the workflow: ``python -m benchmarks.training STUDY CELLS.json [STORE] [--cores 2]``.

Cells that STORE has are left out. CELLS.json gets a list of all cells, see `entry`.
"""

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from fedgrid.api.study_file import read_study
from fedgrid.engine.rounds import Saving
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.canonical import canonical
from fedgrid.jobs import dataset, partition
from fedgrid.jobs.cell import train
from fedgrid.settings import Compute


def entry(cell: Cell) -> dict[str, Any]:
    """A cell in the list: its files relative to the store, and settings, which are the same whatever the code."""
    files = [str(file.relative_to(cell.store)) for file in cell.files]
    return {"settings": canonical(cell.spec), "method": cell.row.component.name, "files": files}


def train_all(study: Study, cells: list[Cell], cores: int) -> None:
    """Trains cells, in `cores` processes, from data and partitions that are built anew."""
    for data in study.datasets.values():
        dataset.build(data, study)
    for planned in study.partitions.values():
        partition.build(planned)
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as processes:
        list(processes.map(train_cell, cells, [study.compute] * len(cells)))


def train_cell(cell: Cell, settings: Compute) -> None:
    """Trains a cell in this process."""
    train(cell, cell.file, settings, Saving(cell.checkpoint, cell.key, every=settings.checkpoint_every))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.training", description="Train a study without the workflow.")
    parser.add_argument("study", type=Path)
    parser.add_argument("list", type=Path)
    parser.add_argument("store", type=Path, nargs="?")
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args(argv)
    study = read_study(given.study)
    missing = [cell for cell in study.cells if not given.store or not in_store(cell, given.store)]
    train_all(study, missing, given.cores)
    given.list.write_text(json.dumps([entry(cell) for cell in study.cells]), encoding="utf-8")
    return 0


def in_store(cell: Cell, store: Path) -> bool:
    """Whether another store has a cell's results."""
    return (store / cell.file.relative_to(cell.store)).is_file()


if __name__ == "__main__":
    sys.exit(main())
