"""A planned study from its file."""

import sys
import threading
from pathlib import Path

from fedgrid.errors import UserError, complain
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import COMMAND_LINE, Origin, Section
from fedgrid.grid.study.sources import forget_files
from fedgrid.grid.study.yaml_file import read

DEFAULT = Path("config/study.yaml")
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
