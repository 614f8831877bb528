"""Tables, figures and report of a study whose cells are not all finished, in a folder of their own.

Run as ``python -m fedgrid.analysis.pages.partial PLAN`` where a run ends without all of them.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.analysis.pages.build import write
from fedgrid.analysis.prose import captions
from fedgrid.command import plan_parser, run
from fedgrid.errors import UserError, reason
from fedgrid.files import check_writable
from fedgrid.grid.plan import manifest, plan_file
from fedgrid.grid.plan.manifest_model import UNAVAILABLE
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.run import cell_states


def report_of(study: Study, configfile: str) -> list[str]:
    """Makes the report of what is finished of every experiment; returns lines that say where and how far each is.

    Raises UserError where no cell of any is finished.
    """
    absent = absent_from(study)
    begun = [experiment for experiment in study.experiments if any(cell.key not in absent for cell in experiment.cells)]
    if not begun:
        raise UserError(f"no cell of {study.name} is finished yet, so there is nothing to report")
    return [_report(study, experiment, absent, configfile) for experiment in begun]


def absent_from(study: Study) -> dict[str, tuple[str, str]]:
    """Cells without results, by key: the status of each, and of a failed or unavailable one the reason."""
    unfinished = {
        key: state for key, state in cell_states.read(study).items() if state.name not in ("done", "diverged")
    }
    explained = ("failed", UNAVAILABLE)
    reasons = {key: " ".join(state.remark.split()) for key, state in unfinished.items() if state.name in explained}
    return {key: (state.name, reasons.get(key, "")) for key, state in unfinished.items()}


def _report(study: Study, experiment: Experiment, absent: dict[str, tuple[str, str]], configfile: str) -> str:
    check_writable(experiment.folder, "results")
    with made_anew(experiment.partial) as made:
        results = write(manifest.content(study, experiment).without(absent), made, configfile)
    far = captions.progress(results) or f"all {len(results.to_train)} cells are finished."
    return f"{experiment.partial}/report.html: {far}"


@contextmanager
def made_anew(folder: Path) -> Iterator[Path]:
    """An empty folder that replaces `folder` at the end, so that nothing of an earlier report is left in it."""
    try:
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.", suffix=".tmp") as temporary:
            made = Path(temporary) / folder.name
            made.mkdir()
            yield made
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from error


def from_plan(file: Path) -> None:
    """Makes the report of a run's plan, and prints where it is."""
    plan = plan_file.read(file)
    print(*report_of(plan.study, plan.configfile), sep="\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: PLAN."""
    parser = plan_parser("fedgrid.analysis.pages.partial", "Report what is finished.")
    parser.set_defaults(action=from_plan)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
