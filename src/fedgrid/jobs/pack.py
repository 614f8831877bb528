"""Several cells in one job of a cluster: libraries are imported once, and every cell is still a process of its own.

Run as ``python -m fedgrid.jobs.pack PLAN NAME DONE --threads N``. Each cell has its own log, status and results. DONE
is written when all of them have results; a pack that is run again leaves those out.
"""

import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedgrid.command import plan_parser
from fedgrid.errors import UserError, complain
from fedgrid.files import write_text
from fedgrid.grid.plan import plan_file
from fedgrid.grid.plan.model import Cell
from fedgrid.jobs.apart import RunningJob, start
from fedgrid.jobs.signals import TERMINATED
from fedgrid.jobs.warm.client import SIGNALS

TAIL = 5
"Lines of a failed cell's log that the pack repeats."


class Pack:
    """The cells of one job of the plan in `file`; `stop` may come from a signal handler."""

    def __init__(self, file: Path, cells: Sequence[Cell], beside: int):
        self.file, self.cells, self.beside = file, cells, beside
        self.stopping = False
        self.running: set[RunningJob] = set()

    def run(self) -> list[Cell]:
        """Trains every cell that has no results yet, `beside` at a time; returns those that failed."""
        waiting = [cell for cell in self.cells if not cell.done]
        with ThreadPoolExecutor(self.beside) as threads:
            codes = list(threads.map(self._train, waiting))
        return [cell for cell, code in zip(waiting, codes, strict=True) if code]

    def stop(self, *_: object) -> None:
        """Lets running cells write their checkpoints and end, and starts no others."""
        self.stopping = True
        for job in list(self.running):
            job.interrupt()

    def _train(self, cell: Cell) -> int:
        if self.stopping:
            return TERMINATED
        for folder in (cell.log.parent, cell.file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with open(cell.log, "wb") as log:
            job = start(["fedgrid.jobs.cell", str(self.file), cell.key], log.fileno(), log.fileno())
            self.running.add(job)
            if self.stopping:  # the signal came between the two lines above
                job.interrupt()
            code = job.wait()
            self.running.discard(job)
        return 0 if cell.done else code or 1


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when all cells have results, 75 when a signal interrupted the pack, else 1."""
    parser = plan_parser("fedgrid.jobs.pack", "Train the cells of a pack.")
    parser.add_argument("name", metavar="NAME", help="of the pack")
    parser.add_argument("done", type=Path, metavar="DONE", help="written when all cells have results")
    parser.add_argument("--threads", type=int, default=1, help="threads of the whole pack")
    try:
        return _work(**vars(parser.parse_args(argv)))
    except (UserError, OSError) as error:
        return complain(error)


def _work(file: Path, name: str, done: Path, threads: int) -> int:
    plan = plan_file.read(file)
    cells = [plan.study.known[key] for key in plan.packs[name]]
    pack = Pack(file, cells, max(1, threads // plan.study.compute.threads))
    for number in SIGNALS:
        signal.signal(number, pack.stop)
    failed = pack.run()
    for log in [cell.log for cell in failed]:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else ["never started"]
        print(f"{log}:", *lines[-TAIL:], sep="\n  ", file=sys.stderr)
    if failed:
        print(f"{len(failed)} of {len(cells)} cells have no results", file=sys.stderr)
        return TERMINATED if pack.stopping else 1
    write_text(done, "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
