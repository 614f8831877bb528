"""A planned study from its file, and the studies of a folder: those of its configuration and of earlier runs."""

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fedgrid.command import DEFAULT
from fedgrid.errors import UserError, complain
from fedgrid.grid.plan import plan_file
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import COMMAND_LINE, Origin, Section
from fedgrid.grid.study.sources import forget_files
from fedgrid.grid.study.yaml_file import read

STORE = Path("results/store")
"Where plans are, if the default study does not say."
_planning = threading.Lock()


def plan(study: Section) -> Study:
    """As `planned_study`, from files as they are now, and in one thread at a time: planning imports users' files."""
    with _planning:
        forget_files()
        return planned_study(study)


def check_default_study() -> None:
    """Ends the process, with one sentence, where the default study cannot be read: Snakemake does not say why."""
    try:
        read(DEFAULT)
    except UserError as error:
        sys.exit(complain(error))


def read_study(file: Path, scale: str | None = None, only: str | None = None, results: Path | None = None) -> Study:
    """The study in a file, at a scale, with some of its experiments, and with another folder of `results`.

    Raises UserError for any mistake in it.
    """
    chosen = {"scale": scale, "only": only, "results": results and str(results)}
    options = {name: value for name, value in chosen.items() if value}
    origins = {name: Origin(COMMAND_LINE, key=name) for name in options}
    return plan(read(file) | Section(options, origins=origins))


def studies_here(file: Path | None, scale: str | None, only: str | None) -> Iterator[tuple[str, Study]]:
    """Each study in which a cell may be looked for, and where it is: the one in `file`, else all of the folder.

    These are the default study, those of the latest runs, the newest first, and those of the configuration. Files that
    are no studies, or that have not this scale or these experiments, are passed over; a mistake in the default study is
    a UserError.
    """
    if file:
        yield str(file), read_study(file, scale, only)
        return
    store = STORE
    if DEFAULT.is_file():
        with suppress(*[UserError] if scale or only else []):
            study = read_study(DEFAULT, scale, only)
            store = study.store
            yield str(DEFAULT), study
    for run in reversed(latest_plans(store)):
        with suppress(UserError):
            plan = plan_file.read(run)
            if scale in (None, plan.study.scale):
                yield f"the latest run of {plan.study.folder.name} ({plan.configfile or run})", plan.study
    for other in sorted(DEFAULT.parent.rglob("*.yaml")):
        if other != DEFAULT:
            with suppress(UserError):
                yield str(other), read_study(other, scale, only)


def latest_plans(store: Path) -> list[Path]:
    """The plan of every study's latest run, the oldest first."""
    oldest_first = sorted(store.glob("plans/*.json"), key=lambda file: file.stat().st_mtime_ns)
    return list({file.stem.rpartition("-")[0]: file for file in oldest_first}.values())
