"""One cell that somebody waits for, as a job: progress on standard error, results in a file of their choice.

Run as ``python -m fedgrid.jobs.single PLAN KEY OUT``. Why there are no results is noted in the store.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fedgrid.engine.state.saving import Saving
from fedgrid.errors import UserError
from fedgrid.grid.plan import plan_file
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.study.catalog import description
from fedgrid.jobs.apart import job
from fedgrid.jobs.cell import train
from fedgrid.jobs.noted import noted, telling
from fedgrid.jobs.other_rounds import origin
from fedgrid.jobs.reporting import Report, Status
from fedgrid.jobs.signals import heeding_signals


def run(cell: Cell, out: Path, planned: plan_file.Plan) -> None:
    """Trains a cell, or what a checkpoint beside the file `out` lacks; notes how it went."""
    checkpoint, settings = out.with_name(out.name + ".checkpoint"), planned.study.compute
    rounds, status = cell.row.training.rounds, Status(cell.status, cell.row.training.rounds)
    with noted(status):
        status.running()
        point = description("methods", cell.row.component.reference)["facts"]["score"]
        saving = Saving(checkpoint, cell.key, settings.checkpoint_every, origin(cell, out))
        with Report(cell.row.title, rounds, point, sys.stderr) as report:
            train(cell, out, settings, saving, telling(report, status), planned.commit)


@job("fedgrid.jobs.single")
def main(argv: Sequence[str] | None = None) -> int:
    """Command line: PLAN KEY OUT; exit code 2 for a mistake, which is noted and not printed, and 75 after a signal."""
    return heeding_signals(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fedgrid.jobs.single", description="Train one cell.")
    parser.add_argument("file", type=Path, metavar="PLAN", help="the plan of the run")
    parser.add_argument("key", metavar="KEY", help="of the cell")
    parser.add_argument("out", type=Path, metavar="OUT", help="the file of its results")
    arguments = parser.parse_args(argv)
    planned = plan_file.read(arguments.file)
    try:
        run(planned.study.known[arguments.key], arguments.out, planned)
    except (UserError, OSError):
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
