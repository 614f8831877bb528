"""The manifest of an experiment as a job, once all its cells are there: what tables and figures are made from.

Run as ``python -m fedgrid.jobs.finish PLAN OUT``.
"""

from collections.abc import Sequence
from pathlib import Path

from fedgrid.command import plan_parser, run
from fedgrid.grid.plan import manifest, plan_file


def from_plan(file: Path, out: Path) -> None:
    """Writes the manifest, of the plan in `file`, of the experiment whose folder `out` lies in."""
    manifest.write(plan_file.read(file).study, out)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: PLAN OUT."""
    parser = plan_parser("fedgrid.jobs.finish", "Write what tables are made from.")
    parser.add_argument("out", type=Path, metavar="OUT", help="JSON to write")
    parser.set_defaults(action=from_plan)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
