"""Results of planned cells under other code: the same settings and images, and another key."""

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedgrid.components import identity
from fedgrid.grid.earlier.stored import StoredResults, other_results
from fedgrid.grid.plan.keys import modules_of_cell
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.study.catalog import known_description
from fedgrid.grid.study.ledger import ENGINE, edited
from fedgrid.grid.study.model import Configured
from fedgrid.grid.study.sources import Sources, is_ours
from fedgrid.settings import identity_of_backbone, identity_of_training

_modules_of = functools.cache(modules_of_cell)


def edited_modules(results: StoredResults) -> set[str]:
    """The modules that make the code of results another one than today's.

    Of fedgrid, those that the ledger of numerics does not list today; where it lists all, those that differ.
    """
    component, model = results.cell.row.component, results.cell.model
    before = results.metadata.modules
    now = _modules_of(component.module, component.file, model.module, model.file)
    differing = {name for name in {*before, *now} if before.get(name) != now.get(name)}
    outside = {name for name in differing if not is_ours(name)}
    # it is computed with these, from its data on
    components = (component, model, results.cell.partition.component, results.cell.partition.data.component)
    return outside | _edited(frozenset(c.module for c in components if is_ours(c.module)) | {ENGINE}) or differing


def waiting_under_other_code(cells: Iterable[Cell]) -> list[StoredResults]:
    """For each of the cells that is to be trained anew, its newest results under other code, if it has any."""
    unique = {cell.key: cell for cell in cells}.values()
    waiting = [cell for cell in unique if cell.waiting and not cell.lacks_artifacts]
    return [results for cell in waiting if (results := newest_under_other_code(cell))]


def newest_under_other_code(cell: Cell, store: Path | None = None) -> StoredResults | None:
    """The results under other code of a cell in `store` (None: its own) that were finished last; None without any."""
    of_same_images = (stored for stored in other_results(cell, store) if not cell.is_of_other_images(stored.metadata))
    results = [stored for stored in of_same_images if has_settings_of(cell, stored.metadata.spec)]
    return max(results, key=lambda stored: stored.metadata.finished, default=None)


def has_settings_of(cell: Cell, spec: Mapping[str, Any]) -> bool:
    """Whether a specification, perhaps of an earlier version, is that of a planned cell."""
    if spec["method"]["name"] != cell.row.component.name or spec["model"]["name"] != cell.model.name:
        return False
    partition, data = spec["partition"], spec["partition"]["data"]
    backbone = {"backbone": identity_of_backbone(data["backbone"])} if "backbone" in data else {}
    planned = cell.partition
    if partition["name"] != planned.component.name or data["name"] != planned.data.name:
        return False
    today = {
        "method": _today("methods", cell.row.component, spec["method"]),
        "model": _today("models", cell.model, spec["model"]),
        "training": identity_of_training(spec["training"]),
        "partition": _today("partition", planned.component, partition)
        | {"data": _today("data", planned.data.component, data) | backbone},
        "seed": spec["seed"],
    }
    return today == cell.spec


def _today(kind: str, component: Configured, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A component's part of a specification, with its settings as they enter today's keys."""
    return {**spec, "settings": identity(known_description(kind, component.reference), spec["settings"])}


@functools.cache
def _edited(entries: frozenset[str]) -> set[str]:
    return edited(entries, Sources.of())
