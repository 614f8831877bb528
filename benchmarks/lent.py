"""A study's cells on a lent machine: it has a GPU and what training needs, but no Snakemake, and little time.

python -m benchmarks.lent pack STUDY.yaml FOLDER --methods fedcosr local    here: plan, partitions and data to carry
python -m benchmarks.lent work FOLDER OUT --seconds 540 --at-once 8         there, PYTHONPATH=src:.

A folder that goes back and forth keeps checkpoints, so that a second ``work`` goes on where the first one ended. What
OUT has is unpacked in the project, where it lies as if it had been trained there; results name their machine.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.mps import multi_process_service
from benchmarks.processes import Failed
from fedgrid.api.study_file import read_study
from fedgrid.grid.plan import plan_file
from fedgrid.grid.plan.commit import commit
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.run.direct import DirectJobs

PLAN, ORDER, DATA, CELLS = "plan.json", "cells.txt", "data", "cells.tar.xz"
SHARE, CHECKPOINT_EVERY = 8, 20.0
"Cells on a GPU at most; seconds."
POLL, PATIENCE = 0.2, 30.0
"Seconds between looks at the processes; for a checkpoint, at the end."


def pack(study: Study, folder: Path, methods: Sequence[str]) -> list[Cell]:
    """Writes what a machine needs to train the study's missing cells of these methods, in their order; the cells.

    Partitions are made where the store lacks them. The originals of a data set are copied where it has a folder.
    """
    cells = [cell for name in methods for cell in study.cells if cell.row.component.name == name and not cell.done]
    jobs = DirectJobs(study)
    for partition in {cell.partition.file: cell.partition for cell in cells}.values():
        jobs.prepare(partition)
        copied = folder / partition.file
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(partition.file, copied)
        originals = study.data_root / partition.data.component.name if study.data_root else None
        if originals and originals.is_dir():
            shutil.copytree(originals, folder / DATA / originals.name, dirs_exist_ok=True)
    jobs.finish()
    compute = replace(study.compute, device="auto", gpu_share=SHARE, checkpoint_every=CHECKPOINT_EVERY)
    plan = plan_file.Plan(replace(study, data_root=Path(DATA), compute=compute), commit=commit())
    plan.write(folder / PLAN)
    (folder / ORDER).write_text("".join(f"{cell.key}\n" for cell in cells), encoding="utf-8")
    return cells


def work(out: Path, deadline: float, at_once: int) -> None:
    """Trains the cells of the working folder, so many at a time, until a moment of `time.monotonic`; packs the results.

    Kernels run side by side where NVIDIA's MPS is installed.
    """
    known = plan_file.read(Path(PLAN)).study.known
    cells = [known[key] for key in Path(ORDER).read_text(encoding="utf-8").split()]
    for stage in {stage.key: stage for cell in cells for stage in cell.partition.data.stages}.values():
        if not stage.built and started("fedgrid.jobs.dataset", stage.key).wait():
            sys.exit(f"there are no images: see logs/{stage.key}.log")
    with ExitStack() as stack:
        try:
            stack.enter_context(multi_process_service())
        except Failed as error:
            print(f"in turns: {error}", flush=True)
        train([cell for cell in cells if not cell.file.is_file()], deadline, at_once)
    with tarfile.open(out / CELLS, "w:xz") as archive:
        for cell in cells:
            if cell.file.is_file():
                archive.add(cell.file, cell.file.as_posix())


def train(cells: Sequence[Cell], deadline: float, at_once: int) -> None:
    """Trains cells, each in a process; those that the deadline interrupts write checkpoints."""
    left, running = list(cells), dict[str, tuple[Cell, subprocess.Popen[bytes]]]()
    while (left or running) and time.monotonic() < deadline:
        while left and len(running) < at_once:
            cell = left.pop(0)
            running[cell.key] = cell, started("fedgrid.jobs.cell", cell.key)
        for cell, process in list(running.values()):
            if process.poll() is not None:
                del running[cell.key]
                print(f"{cell.description} ({cell.key}): exit code {process.returncode}", flush=True)
        time.sleep(POLL)
    for _, process in running.values():
        process.send_signal(signal.SIGTERM)
    for cell, process in running.values():
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
        print(f"{cell.description} ({cell.key}): interrupted", flush=True)


def started(module: str, key: str) -> subprocess.Popen[bytes]:
    """A job of the plan; what it says is in a file of its key."""
    logs = Path("logs")
    logs.mkdir(exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with (logs / f"{key}.log").open("ab") as log:
        command = [sys.executable, "-P", "-m", module, PLAN, key]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def main(argv: Sequence[str] | None = None) -> None:
    """Command line."""
    start = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lent", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="write what a lent machine needs")
    packing.add_argument("study", type=Path)
    packing.add_argument("folder", type=Path)
    packing.add_argument("--methods", nargs="+", required=True, help="whose cells are trained, those first named first")
    packing.add_argument("--scale")
    working = commands.add_parser("work", help="train there")
    working.add_argument("folder", type=Path)
    working.add_argument("out", type=Path, help="where the results go")
    working.add_argument("--seconds", type=float, required=True)
    working.add_argument("--at-once", type=int, default=SHARE)
    asked = parser.parse_args(argv)
    if asked.command == "pack":
        packed = pack(read_study(asked.study, asked.scale), asked.folder, asked.methods)
        print(f"{len(packed)} cells in {asked.folder}")
    else:
        out = asked.out.resolve()
        places = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, places))  # jobs start in another folder
        os.chdir(asked.folder)
        work(out, start + asked.seconds, asked.at_once)


if __name__ == "__main__":
    main()
