"""Computes cases with the code of the tree that it is run in: ``python -m benchmarks.numerics.worker CASES.json OUT``.

Both trees that are compared run their own copy of this module, so what stands in CASES.json and what is written keeps
its form: of a case the name, a study, the cells (by `name_of`) and whether they are trained. In a folder by the case's
name the results, artifacts, partitions and images are written, or in ``failed.txt`` what went wrong.
"""

import json
import shutil
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgrid.engine.rounds import Saving
from fedgrid.errors import UserError
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.jobs.cell import train
from fedgrid.jobs.preparation import prepare

NEVER = 1e9
"Seconds between checkpoints."


def name_of(cell: Cell) -> str:
    """The name of a cell within its study, whatever the code."""
    return f"{cell.row.label}, {cell.partition.data.label}, {cell.heterogeneity}, seed {cell.seed}".replace("/", "-")


def compute(case: Mapping[str, Any], folder: Path) -> None:
    """Computes the cells of a case and writes what is compared to a folder by its name."""
    out = folder / case["name"]
    out.mkdir(parents=True)
    try:
        study = planned_study(Section(case["study"] | {"results": str(folder / "results")}))
        for cell in study.cells:
            if name_of(cell) in case["cells"]:
                _compute_cell(cell, study, case["trains"], out)
    except UserError as error:
        (out / "failed.txt").write_text(str(error), encoding="utf-8")
    except Exception:  # an edit may break anything; what it broke is the answer
        (out / "failed.txt").write_text(traceback.format_exc(), encoding="utf-8")


def _compute_cell(cell: Cell, study: Study, trains: bool, out: Path) -> None:
    name, planned = name_of(cell), cell.partition
    prepare(planned, study)
    for part, file in planned.data.files.items():
        shutil.copyfile(file, out / f"{planned.data.label}.{part}.parquet")
    shutil.copyfile(planned.file, out / f"{name}.partition.parquet")
    if trains:
        train(cell, out / f"{name}.parquet", study.compute, Saving(cell.checkpoint, cell.key, every=NEVER))


def main(cases: Path, out: Path) -> None:
    for case in json.loads(cases.read_text(encoding="utf-8")):
        compute(case, out)
        print(case["name"], flush=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
