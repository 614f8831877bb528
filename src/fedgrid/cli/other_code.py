"""Why cells wait that have been trained before: their results are of other code."""

from collections.abc import Iterable, Sequence

from fedgrid.cli.phrases import counted
from fedgrid.grid.earlier.other_code import edited_modules, waiting_under_other_code
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.ledger import ENGINE


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
