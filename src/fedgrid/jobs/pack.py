"""Several cells in one job of a cluster: libraries are imported once, and every cell is still a process of its own.

Run as ``python -m fedgrid.jobs.pack PLAN NAME DONE --threads N``. Each cell has its own log, status and results. DONE
is written when all of them have results; a pack that is run again leaves those out.
"""

import argparse
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import ForkServerProcess
from multiprocessing.util import Finalize
from pathlib import Path

from fedgrid.errors import UserError, complain
from fedgrid.files import write_text
from fedgrid.grid.plan import plan_file
from fedgrid.grid.plan.model import Cell
from fedgrid.jobs.job_process import ASKED_TO_END, TERMINATED, enter_job
from fedgrid.jobs.warm import LIBRARIES, own_folder

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(list(LIBRARIES))
AFTER_ALL = -1000
"Of what multiprocessing does when a process ends: the last."
TAIL = 5
"Lines of a failed cell's log that the pack repeats."


class Pack:
    """The cells of one job of the plan in `file`; `stop` may come from a signal handler."""

    def __init__(self, file: Path, cells: Sequence[Cell], beside: int):
        self.file, self.cells, self.beside = file, cells, beside
        self.stopping = False
        self.running: set[ForkServerProcess] = set()

    def run(self) -> list[Cell]:
        """Trains every cell that has no results yet, `beside` at a time; returns those that failed."""
        waiting = [cell for cell in self.cells if not cell.done]
        with ThreadPoolExecutor(self.beside) as threads:
            codes = list(threads.map(self._train, waiting))
        return [cell for cell, code in zip(waiting, codes, strict=True) if code]

    def stop(self, *_: object) -> None:
        """Lets running cells write their checkpoints and end, and starts no others."""
        self.stopping = True
        for process in list(self.running):
            process.terminate()

    def _train(self, cell: Cell) -> int:
        if self.stopping:
            return TERMINATED
        for folder in (cell.log.parent, cell.file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        process = FORKING.Process(target=_train, args=(self.file, cell.key, cell.log))
        process.start()
        self.running.add(process)
        if self.stopping:  # the signal came between the two lines above
            process.terminate()
        process.join()
        self.running.discard(process)
        return 0 if cell.done else process.exitcode or 1  # another thread may have taken the exit code


def _train(file: Path, key: str, log: Path) -> None:
    """The process of a cell; its output goes to its log."""
    log_file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (1, 2):
        os.dup2(log_file, stream)
    enter_job()
    from fedgrid.jobs import cell  # here, not in the pack: it imports torch

    sys.exit(cell.main([str(file), key]))


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 when all cells have results, 75 when the pack received SIGTERM, else 1."""
    parser = argparse.ArgumentParser(prog="python -m fedgrid.jobs.pack", description="Train the cells of a pack.")
    parser.add_argument("file", type=Path, metavar="PLAN", help="the plan of the run")
    parser.add_argument("name", metavar="NAME", help="of the pack")
    parser.add_argument("done", type=Path, metavar="DONE", help="written when all cells have results")
    parser.add_argument("--threads", type=int, default=1, help="threads of the whole pack")
    arguments = parser.parse_args(argv)
    try:
        return _work(arguments)
    except (UserError, OSError) as error:
        return complain(error)


def _work(arguments: argparse.Namespace) -> int:
    tempfile.tempdir = folder = own_folder()  # the fork server's socket will lie there
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=AFTER_ALL)
    plan = plan_file.read(arguments.file)
    cells = [plan.study.known[key] for key in plan.packs[arguments.name]]
    pack = Pack(arguments.file, cells, max(1, arguments.threads // plan.study.compute.threads))
    for number in ASKED_TO_END:
        signal.signal(number, pack.stop)
    failed = pack.run()
    for cell in failed:
        _complain(cell.log)
    if failed:
        print(f"{len(failed)} of {len(cells)} cells have no results", file=sys.stderr)
        return TERMINATED if pack.stopping else 1
    write_text(arguments.done, "")
    return 0


def _complain(log: Path) -> None:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else ["never started"]
    print(f"{log}:", *lines[-TAIL:], sep="\n  ", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
