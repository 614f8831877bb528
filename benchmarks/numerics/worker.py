"""Computes cases with the code of the tree that it is run in: ``python -m benchmarks.numerics.worker CASES.json OUT``.

Both trees that are compared run their own copy of this module, so what stands in CASES.json and what is written keeps
its form: of a case the name, a study, the cells (by `name_of`) and how they are trained: not at all, at a stretch,
interrupted, or kept in the store so that later cases continue from them. In a folder by the case's name the results,
artifacts, partitions and images are written, or in ``failed.txt`` what went wrong.
"""

import json
import shutil
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedgrid.engine.compute import Tell
from fedgrid.engine.rounds import Saving, Terminated
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.errors import UserError
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.jobs.cell import train
from fedgrid.jobs.other_rounds import origin
from fedgrid.jobs.preparation import prepare

NOT_AT_ALL, AT_A_STRETCH, INTERRUPTED, KEPT = "not at all", "at a stretch", "interrupted", "kept"
"How the cells of a case are trained."
NEVER = 1e9
"Seconds between checkpoints."
STOPPED_AFTER = 2
"Rounds, where a cell is interrupted."


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
                _compute_cell(cell, study, case["trained"], out)
    except UserError as error:
        (out / "failed.txt").write_text(str(error), encoding="utf-8")
    except Exception:  # an edit may break anything; what it broke is the answer
        (out / "failed.txt").write_text(traceback.format_exc(), encoding="utf-8")


def _compute_cell(cell: Cell, study: Study, trained: str, out: Path) -> None:
    name, planned = name_of(cell), cell.partition
    prepare(planned, study)
    for part, file in planned.data.files.items():
        shutil.copyfile(file, out / f"{planned.data.label}.{part}.parquet")
    shutil.copyfile(planned.file, out / f"{name}.partition.parquet")
    results = out / f"{name}.parquet"
    if trained == INTERRUPTED:
        with suppress(Terminated):
            _train(cell, study, results, _stop)
    if trained != NOT_AT_ALL:
        _train(cell, study, results)
    if trained == KEPT:
        cell.file.parent.mkdir(parents=True, exist_ok=True)
        for file in (results, *cell.kept_beside(results).values()):
            shutil.copyfile(file, cell.file.with_name(file.name.replace(name, cell.file.stem)))


def _train(cell: Cell, study: Study, results: Path, tell: Tell | None = None) -> None:
    train(cell, results, study.compute, Saving(cell.checkpoint, cell.key, NEVER, origin(cell, results)), tell)


def _stop(progress: Progress, remark: str) -> None:
    """Ends a cell after its second round, as a scheduler would."""
    if progress.rounds == STOPPED_AFTER:
        raise Terminated


def main(cases: Path, out: Path) -> None:
    for case in json.loads(cases.read_text(encoding="utf-8")):
        compute(case, out)
        print(case["name"], flush=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
