"""Computes cases with the code of the tree that it is run in: ``python -m benchmarks.numerics.worker CASES.json OUT``.

Both trees that are compared run their own copy of this module, so what stands in CASES.json and what is written keeps
its form: of a case the name, a study, the cells (by `name_of`) and how they are trained: not at all, at a stretch,
interrupted, or kept in the store so that later cases continue from them; or the name, a data set, its settings and the
folder of its authors' own files. In a folder by the case's name the results, artifacts, partitions and images are
written, or in `FAILED` what went wrong.
"""

import json
import shutil
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from fedgrid.data.base import DataSet
from fedgrid.data.common.images import Images, RawDataset
from fedgrid.data.sources import torchvision_shim
from fedgrid.engine.compute import Tell
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.engine.state.saving import Saving, Terminated
from fedgrid.errors import UserError
from fedgrid.files import write_table
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.jobs.cell import train
from fedgrid.jobs.other_rounds import origin
from fedgrid.jobs.partition import prepare
from fedgrid.loading import load

NOT_AT_ALL, AT_A_STRETCH, INTERRUPTED, KEPT = "not at all", "at a stretch", "interrupted", "kept"
"How the cells of a case are trained."
FAILED = "failed.txt"
"The file of a case that went wrong: what it said."
NEVER = 1e9
"Seconds between checkpoints."
STOPPED_AFTER = 2
"Rounds, where a cell is interrupted."


def name_of(cell: Cell) -> str:
    """The name of a cell within its study, whatever the code."""
    return f"{cell.row.label}, {cell.partition.data.label}, {cell.heterogeneity}, seed {cell.seed}".replace("/", "-")


def compute(case: Mapping[str, Any], folder: Path) -> None:
    """Computes the cells of a case, or reads its files, and writes what is compared to a folder by its name."""
    out = folder / case["name"]
    out.mkdir(parents=True)
    try:
        if "data" in case:
            _read_original(case, out)
        else:
            _compute_cells(case, folder / "results", out)
    except UserError as error:
        (out / FAILED).write_text(str(error), encoding="utf-8")
    except Exception:  # an edit may break anything; what it broke is the answer
        (out / FAILED).write_text(traceback.format_exc(), encoding="utf-8")


def _compute_cells(case: Mapping[str, Any], results: Path, out: Path) -> None:
    study = planned_study(Section(case["study"] | {"results": str(results)}))
    for cell in study.cells:
        if name_of(cell) in case["cells"]:
            _compute_cell(cell, study, case["trained"], out)


def _compute_cell(cell: Cell, study: Study, trained: str, out: Path) -> None:
    name, planned = name_of(cell), cell.partition
    prepare(planned, study)
    for part, file in planned.data.files.items():
        shutil.copyfile(file, out / f"{planned.data.label}.{part}.parquet")
    shutil.copyfile(planned.file, out / f"{name}.partition.parquet")
    shutil.copyfile(planned.file.with_suffix(".json"), out / f"{name}.partition.json")
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


def _read_original(case: Mapping[str, Any], out: Path) -> None:
    """Writes each part of a data set as its authors' own files give it."""
    data = load("data", case["data"])(**case["settings"])
    assert isinstance(data, DataSet)
    utilities = torchvision_shim.load("torchvision.datasets.utils")
    with mock.patch.object(utilities, "check_md5", return_value=True):  # torchvision knows the published files alone
        raw = data.original(Path(case["folder"]), download=False)
    if raw is None:
        raise UserError(f"data '{case['data']}': there are no original files in {case['folder']}")
    for part, images in raw.parts.items():
        write_table(out / f"original.{part}.parquet", *_as_table(images, raw))


def _as_table(images: Images, raw: RawDataset) -> tuple[pa.Table, dict[str, Any]]:
    """One part of a data set as a row of texts, with arrays as their bytes, and the facts of the data set."""
    facts = {field.name: getattr(raw, field.name) for field in fields(raw) if field.name != "parts"}
    columns = {}
    for name, value in ((field.name, getattr(images, field.name)) for field in fields(images)):
        if isinstance(value, np.ndarray):
            facts[f"{name} are"] = [str(value.dtype), *value.shape]
        columns[name] = [value.tobytes().hex() if isinstance(value, np.ndarray) else json.dumps(value)]
    return pa.table(columns), facts


def main(cases: Path, out: Path) -> None:
    for case in json.loads(cases.read_text(encoding="utf-8")):
        compute(case, out)
        print(case["name"], flush=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
