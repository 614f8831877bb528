"""What several commands print alike: searches, results under other code, names of files and modules."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fedgrid.command import DEFAULT
from fedgrid.grid.earlier.other_code import edited_modules, waiting_under_other_code
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.ledger import ENGINE
from fedgrid.quantities import counted


def path_in_study(file: Path) -> tuple[str, str]:
    """A file as a study names it, and which study: the default one, or one in the working folder."""
    if DEFAULT.is_file():
        return os.path.relpath(file, DEFAULT.parent), str(DEFAULT)
    return str(file), "a study in this folder"


def search_lines(studies: Iterable[Study]) -> Iterator[str]:
    """A line for each study with searches: choices made, cells that compare settings, cells that wait for choices."""
    for study in studies:
        searches = [search for experiment in study.experiments for search in experiment.searches]
        if not searches:
            continue
        trials = {cell.key: cell for experiment in study.experiments for cell in experiment.trials}
        made, done = sum(search.chosen is not None for search in searches), sum(cell.done for cell in trials.values())
        waiting = len({cell.key for cell in study.cells if cell.pending})
        for_them = f", {counted(waiting, 'cell')} of the tables {'waits' if waiting == 1 else 'wait'} for them"
        finished = f"{done:,} of {counted(len(trials), 'cell')} to choose by done{for_them if waiting else ''}"
        yield f"search: {made:,} of {counted(len(searches), 'choice')} made, {finished}"


def other_code_lines(studies: Iterable[Study]) -> list[str]:
    """A sentence where cells to be trained have results under other code; empty where none has."""
    results = waiting_under_other_code(cell for study in studies for cell in study.known.values())
    if not results:
        return []
    edited = sorted({name for stored in results for name in edited_modules(stored)})
    what = module_names(edited) if edited else "code of the partition or the data"
    have = "has" if len(results) == 1 else "have"
    return [f"{counted(len(results), 'cell')} {have} results under other code ({what} edited)"]


def module_names(names: Sequence[str], most: int = 4) -> str:
    """Some names of modules, without the package's."""
    short = ["engine" if name == ENGINE else name.removeprefix("fedgrid.").replace(".", "/") for name in names]
    more = f" and {len(short) - most} more" if len(short) > most else ""
    return ", ".join(short[:most]) + more
