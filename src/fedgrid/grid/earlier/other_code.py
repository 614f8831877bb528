"""Results of planned cells under other code: the same settings and images, and another key."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrid.components import identity
from fedgrid.grid.costs.measured import facts
from fedgrid.grid.plan.keys import modules_of_cell
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.ledger import ENGINE, edited
from fedgrid.grid.study.model import Configured, Settings
from fedgrid.grid.study.sources import Sources, is_ours
from fedgrid.settings import identity_of_backbone, identity_of_training


@dataclass(frozen=True)
class StoredResults:
    """Results in a store that have the settings of a planned cell, under whichever code."""

    cell: Cell
    file: Path
    metadata: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Their key."""
        key: str = self.metadata["key"]
        return key

    @property
    def artifacts(self) -> dict[str, Path]:
        """The files of the artifacts that the study asks for, by kind; some may be missing."""
        return self.cell.kept_beside(self.file)

    @property
    def edited(self) -> set[str]:
        """The modules that make the code of these results another one than today's.

        Of fedgrid, those that the ledger of numerics does not list today; where it lists all, those that differ.
        """
        before, now = self.metadata["modules"], _modules(self.cell)
        differing = {name for name in {*before, *now} if before.get(name) != now.get(name)}
        outside = {name for name in differing if not is_ours(name)}
        return outside | _unlisted(self.cell) or differing


def waiting_under_other_code(cells: Iterable[Cell]) -> list[StoredResults]:
    """For each of the cells that is to be trained anew, its newest results under other code, if it has any."""
    unique = {cell.key: cell for cell in cells}.values()
    waiting = [cell for cell in unique if cell.waiting and not cell.lacks_artifacts]
    return [results for cell in waiting if (results := newest_under_other_code(cell))]


def newest_under_other_code(cell: Cell, store: Path | None = None) -> StoredResults | None:
    """The results under other code of a cell in `store` (None: its own) that were finished last; None without any."""
    folder = (store or cell.store) / cell.file.parent.relative_to(cell.store)
    files = [file for file in folder.glob(f"s{cell.seed}-*.parquet") if file.name.count(".") == 1]
    known = [StoredResults(cell, file, metadata) for file in files if (metadata := facts(file))]
    results = [stored for stored in known if _is_under_other_code(cell, stored.metadata)]
    return max(results, key=lambda stored: stored.metadata["finished"], default=None)


def _is_under_other_code(cell: Cell, metadata: Mapping[str, Any]) -> bool:
    """Whether results of another key are of the cell's settings and images."""
    if metadata["key"] == cell.key or cell.is_of_other_images(metadata):
        return False
    return has_settings_of(cell, metadata["spec"])


def has_settings_of(cell: Cell, spec: Mapping[str, Any]) -> bool:
    """Whether a specification, perhaps of an earlier version, is that of a planned cell."""
    if spec["method"]["name"] != cell.row.component.name or spec["model"]["name"] != cell.model.name:
        return False
    partition, data = spec["partition"], spec["partition"]["data"]
    planned = cell.partition
    if partition["name"] != planned.component.name or data["name"] != planned.data.name:
        return False
    today = {
        "method": _today("methods", cell.row.component, spec["method"]),
        "model": _today("models", cell.model, spec["model"]),
        "training": identity_of_training(spec["training"]),
        "partition": _today("partition", planned.component, partition)
        | {"data": _today("data", planned.data.component, data) | _backbone(data)},
        "seed": spec["seed"],
    }
    return today == cell.spec


def _today(kind: str, component: Configured, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A component's part of a specification, with its settings as they enter today's keys."""
    return {**spec, "settings": identity(_description(kind, component.reference), spec["settings"])}


def _backbone(data: Mapping[str, Any]) -> dict[str, Settings]:
    return {"backbone": identity_of_backbone(data["backbone"])} if "backbone" in data else {}


_description = functools.cache(description)
"Components do not change while a command runs."


@functools.cache
def _modules_of(module: str, file: str | None, model: str, model_file: str | None) -> dict[str, str]:
    return modules_of_cell(module, file, model, model_file)


def _unlisted(cell: Cell) -> set[str]:
    """The modules of fedgrid that a cell is computed with, from its data on, and that the ledger does not list."""
    planned = cell.partition
    components = (cell.row.component, cell.model, planned.component, planned.data.component)
    return _edited(frozenset(c.module for c in components if is_ours(c.module)) | {ENGINE})


@functools.cache
def _edited(entries: frozenset[str]) -> set[str]:
    return edited(entries, Sources.of())


def _modules(cell: Cell) -> dict[str, str]:
    """The modules that count for a cell today, with their digests."""
    component = cell.row.component
    return _modules_of(component.module, component.file, cell.model.module, cell.model.file)
