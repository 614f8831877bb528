"""The studies of a folder: the default one, those of earlier runs, and those of its configuration."""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fedgrid.api.study_file import DEFAULT, read_study
from fedgrid.cli.studies import latest_plans, study_of
from fedgrid.errors import UserError
from fedgrid.grid.plan import plan_file
from fedgrid.grid.plan.planned_study import Study

STORE = Path("results/store")
"Where plans are, if the default study does not say."


def studies_here(arguments: argparse.Namespace) -> Iterator[tuple[str, Study]]:
    """Each study in which a command may look, and where it is: the one that its options name, else all of the folder.

    Files that are no studies, or that have not the scale or the experiments of the options, are passed over; a mistake
    in the default study is a UserError.
    """
    if arguments.configfile:
        yield str(arguments.configfile), study_of(arguments)
        return
    chosen, store = bool(arguments.scale or arguments.only), STORE
    if DEFAULT.is_file():
        with suppress(*[UserError] if chosen else []):
            study = read_study(DEFAULT, arguments.scale, arguments.only)
            store = study.store
            yield str(DEFAULT), study
    yield from _of_runs(store, arguments.scale)
    for file in sorted(DEFAULT.parent.rglob("*.yaml")):
        if file != DEFAULT:
            with suppress(UserError):
                yield str(file), read_study(file, arguments.scale, arguments.only)


def _of_runs(store: Path, scale: str | None) -> Iterator[tuple[str, Study]]:
    """The study of each latest run, the newest first."""
    for file in reversed(latest_plans(store)):
        with suppress(UserError):
            plan = plan_file.read(file)
            if scale in (None, plan.study.scale):
                yield f"the latest run of {plan.study.folder.name} ({plan.configfile or file})", plan.study
