"""One cell, trained in a process of its own."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from fedgrid.api.study_file import plan
from fedgrid.files import check_writable, read_table
from fedgrid.grid.earlier.other_rounds import longer_run
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.sections import Section
from fedgrid.jobs import originals
from fedgrid.jobs.gpus import check_device
from fedgrid.jobs.other_rounds import is_finished, take
from fedgrid.run.cell_states import DIRECT
from fedgrid.run.direct import DirectJobs

Origin = Literal["cached", "taken", "trained", "interrupted"]
_locks: dict[Path, threading.Lock] = {}


@dataclass(frozen=True)
class TrainedCell:
    """A finished cell.

    `values` has every recorded number: round, client, metric, value; accuracies are fractions. `metadata` has the
    cell's key, its specification, status and reason, costs, versions and hardware.
    """

    file: Path
    values: pd.DataFrame
    metadata: Mapping[str, Any]


def train(
    method: str,
    hyperparameters: Mapping[str, Any] = {},
    *,
    data: str | Mapping[str, Any] = "digits",
    heterogeneity: Mapping[str, Any] = {"partition": "dirichlet"},
    model: str | Mapping[str, Any] = "mlp",
    training: Mapping[str, Any] = {},
    seed: int = 0,
    artifacts: Sequence[str] = (),
    compute: Mapping[str, Any] = {},
    results: str = "results",
) -> TrainedCell:
    """Trains one cell, unless the store in `results` has it already, with a progress bar on standard error.

    It is trained in a process of its own, from the files as they are now: what this process has imported or changed
    makes no difference. `method` is a name or the path of a file; all other settings are as in a study. After an
    interruption, the same call resumes from the last checkpoint. A cell that diverges is returned with the results so
    far and the status ``diverged`` in its `metadata`. Raises UserError for a wrong setting, for unavailable data, for a
    device that this machine lacks and, once its traceback is printed, for an error in the code of a component.
    """
    about = {
        "name": "run",
        "data": data,
        "heterogeneity": [heterogeneity],
        "methods": {Path(method).stem: {"method": method, **hyperparameters}},
        "model": model,
        "training": training,
        "seeds": [seed],
        "artifacts": list(artifacts),
        "compute": compute,
        "results": results,
    }
    _, file, _ = compute_cell(about)
    return read_cell(file)


def compute_cell(
    about: Mapping[str, Any], out: Path | None = None, heeds_signals: bool = False
) -> tuple[Cell, Path, Origin]:
    """Has the results of the one cell of a study, by default in the store; the cell, their file, where they come from.

    Raises as `ensure_results` does, and UserError for a wrong setting.
    """
    study = plan(Section(about))
    cell = study.cells[0]
    originals.say_notices(study)
    out = out or cell.file
    return cell, out, ensure_results(study, cell, out, heeds_signals)


def read_cell(file: Path) -> TrainedCell:
    """The results of a cell; raises as `fedgrid.files.read_table` does."""
    rows, metadata = read_table(file)
    return TrainedCell(file, rows.to_pandas(), metadata)


def ensure_results(study: Study, cell: Cell, out: Path, heeds_signals: bool = False) -> Origin:
    """Has the results of a cell of the study in the file `out`, and says where they come from.

    They may be there, or a longer run may have them; else the cell is trained, or what a checkpoint lacks, in a process
    of its own. The checkpoint is that of the workflow for the cell's own file, and lies beside any other. Where it
    `heeds_signals`, SIGTERM and SIGUSR1 write a checkpoint and interrupt it. Raises UserError where the file holds
    another cell, and for a device that is not here.
    """
    with _locks.setdefault(out.resolve(), threading.Lock()):  # other threads of this process wait for the same file
        if is_finished(cell, out):
            return "cached"
        if longer := longer_run(cell):
            take(cell, out, longer)
            return "taken"
        check_device(study.compute.device)
        check_writable(out.parent if out != cell.file else study.store, "results")
        jobs = DirectJobs(replace(study, name=f"{DIRECT}{cell.key}"))
        jobs.prepare(cell.partition)
        return "trained" if jobs.train(cell, out, heeds_signals) else "interrupted"
