"""Packs: cells that share one job of a cluster, and with it one allocation and one start of Python.

They are part of a run's plan, since nodes must not choose them again while cells finish.
"""

from itertools import count
from pathlib import Path

from fedgrid.grid.costs.measured import Request, request
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.fingerprint import digest


def chosen(study: Study) -> dict[str, tuple[str, ...]]:
    """Keys of `compute.pack` unfinished cells each, by the name of their pack."""
    waiting, size = (
        [cell.key for cell in study.by_key.values() if cell.waiting],
        study.compute.pack,
    )
    packs = [tuple(waiting[first : first + size]) for first in range(0, len(waiting), size)] if size > 1 else []
    return {_name(study.store, keys): keys for keys in packs}


def mark(store: Path, name: str) -> Path:
    """What a pack leaves when all its cells have results."""
    return store / "packs" / f"{name}.done"


def cells(plan: Plan, name: str) -> list[Cell]:
    """The cells of a pack."""
    return [plan.study.by_key[key] for key in plan.packs[name]]


def request_of(plan: Plan, name: str) -> Request:
    """What a scheduler is asked for to run a pack."""
    return request(cells(plan, name), plan.study.compute, plan.study.compute.gpu_share)


def _name(store: Path, keys: tuple[str, ...]) -> str:
    """A name without a mark: an existing mark is of an earlier run whose results were deleted."""
    return next(name for n in count() if not mark(store, name := digest([*keys, n])).exists())
