"""Packs: cells that share one job of a cluster, and with it one allocation and one start of Python.

They are part of a run's plan: nodes must not choose packs anew while cells finish.
"""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.canonical import digest


def chosen(study: Study) -> dict[str, tuple[str, ...]]:
    """Keys of unfinished cells by the name of their pack: `compute.pack` each, or what is left of a search's point."""
    together: list[Sequence[str]] = [[cell.key for cell in study.by_key.values() if not cell.pending]]
    # a search asks for all cells of a point or for none
    for search in (search for experiment in study.experiments for search in experiment.searches):
        together += [*(keys for rung in search.rungs for keys in rung.trials), *search.candidates]
    size, packed, packs = study.compute.pack, set[str](), list[tuple[str, ...]]()
    for keys in together if size > 1 else []:
        waiting = [key for key in dict.fromkeys(keys) if key not in packed and study.known[key].waiting]
        packed.update(waiting)
        packs += [tuple(waiting[first : first + size]) for first in range(0, len(waiting), size)]
    return {_name(study.store, keys): keys for keys in packs}


def mark(store: Path, name: str) -> Path:
    """The file that a pack writes when all its cells have results."""
    return store / "packs" / f"{name}.done"


def _name(store: Path, keys: tuple[str, ...]) -> str:
    """A name without a mark: an existing mark was left by an earlier run whose results were deleted."""
    return next(name for n in count() if not mark(store, name := digest([*keys, n])).exists())
