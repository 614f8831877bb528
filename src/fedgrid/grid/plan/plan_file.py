"""The plan of a run: a resolved study as one file, which every job of the run looks its work up in.

The study is resolved once, where the run begins. What cells share, such as a partition, stands in the file once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fedgrid.errors import Damaged
from fedgrid.files import read_json, write_json
from fedgrid.grid.plan.model import Cell, PlannedDataset, PlannedPartition
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.study.fingerprint import digest
from fedgrid.grid.study.model import Configured, MethodRow
from fedgrid.settings import Compute

OWN = ("seed", "train_seed", "code", "key", "artifacts")
"What a cell has beside its row, partition and model."


@dataclass(frozen=True)
class Plan:
    """A study that is being run, with what the run adds to it."""

    study: Study
    configfile: str = ""
    "The study's file, as its user names it."
    packs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "Keys of the cells that share a job of a cluster, by the pack's name."
    commit: Mapping[str, Any] | None = None
    "The commit of the code; see `fedgrid.grid.plan.commit`."
    manifests: Mapping[str, Path] = field(default_factory=dict)
    "By an experiment's name among the results, what its tables are made from; of those that `only` leaves out too."

    def content(self) -> dict[str, Any]:
        """The plan as plain values; `parsed` is its inverse."""
        study, cells = self.study, self.study.cells
        rows, models = _Once(cell.row for cell in cells), _Once(cell.model for cell in cells)
        partitions = _Once(cell.partition for cell in cells)
        data = _Once(partition.data for partition in partitions.values)

        def numbered(cell: Cell) -> list[Any]:
            shared = [rows[cell.row], partitions[cell.partition], models[cell.model]]
            return shared + [getattr(cell, name) for name in OWN]

        return {
            "configfile": self.configfile,
            "commit": self.commit,
            "packs": {name: list(keys) for name, keys in self.packs.items()},
            "manifests": {name: str(file) for name, file in self.manifests.items()},
            "text": study.text,
            "compute": asdict(study.compute),
            "data_root": study.data_root and str(study.data_root),
            "models": [asdict(model) for model in models.values],
            "rows": [asdict(row) for row in rows.values],
            "data": [_dataset(one) for one in data.values],
            "partitions": [_values(one) | {"data": data[one.data]} for one in partitions.values],
            "experiments": [
                _shallow(one)
                | {
                    "folder": str(one.folder),
                    "cells": [numbered(cell) for cell in one.cells],
                    "listed": [asdict(row) for row in one.listed],
                }
                for one in study.experiments
            ],
        }

    @property
    def file(self) -> Path:
        """Where it is kept while its run is going: its name covers its content, so no other run ever changes it."""
        return self.study.store / "plans" / f"{self.study.folder.name}-{digest(self.content())}.json"

    def write(self, file: Path | None = None) -> Path:
        """Writes the plan to its `file`, even where it is there: a study's newest plan is that of its latest run."""
        file = file or self.file
        write_json(file, self.content())
        return file


def read(file: Path) -> Plan:
    """The plan in a file; UserError where there is none, `Damaged` for one that is not what was written."""
    content = read_json(file)
    try:
        return parsed(content)
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise Damaged(file, "it is no plan of this version of fedgrid") from error


def parsed(content: Mapping[str, Any]) -> Plan:
    """The inverse of `Plan.content`."""
    text = content["text"]
    store = Path(text["results"]) / "store"
    models = [Configured(**model) for model in content["models"]]
    rows = [_parsed_row(row) for row in content["rows"]]
    data = [_parsed_dataset(found, store) for found in content["data"]]
    partitions = [
        PlannedPartition(**found | {"component": Configured(**found["component"]), "data": data[found["data"]]})
        for found in content["partitions"]
    ]

    def cell(row: int, partition: int, model: int, *own: Any) -> Cell:
        values = dict(zip(OWN, own, strict=True))
        return Cell(rows[row], partitions[partition], models[model], **values | {"artifacts": tuple(own[-1])})

    experiments = [
        Experiment(
            **one
            | {
                "folder": Path(one["folder"]),
                "cells": [cell(*found) for found in one["cells"]],
                "listed": [_parsed_row(row) for row in one["listed"]],
            }
        )
        for one in content["experiments"]
    ]
    root = content["data_root"] and Path(content["data_root"])
    study = Study(text, Compute(**content["compute"]), experiments, root)
    packs = {name: tuple(keys) for name, keys in content["packs"].items()}
    manifests = {name: Path(file) for name, file in content["manifests"].items()}
    return Plan(study, content["configfile"], packs, content["commit"], manifests)


def _parsed_row(found: dict[str, Any]) -> MethodRow:
    return MethodRow(**found | {"component": Configured(**found["component"])})


class _Once:
    """Different objects in the order in which they come, and their numbers."""

    def __init__(self, found: Iterable[Any]):
        self.values: list[Any] = []
        self.numbers: dict[int, int] = {}
        for one in found:
            if id(one) not in self.numbers:
                self.numbers[id(one)] = len(self.values)
                self.values.append(one)

    def __getitem__(self, one: Any) -> int:
        return self.numbers[id(one)]


def _dataset(data: PlannedDataset) -> dict[str, Any]:
    """A data set as plain values, with its images where it holds their features; without the store."""
    values = {name: value for name, value in _values(data).items() if name != "store"}
    return values | {"images": data.images and _dataset(data.images)}


def _parsed_dataset(found: dict[str, Any], store: Path) -> PlannedDataset:
    images = found["images"] and _parsed_dataset(found["images"], store)
    return PlannedDataset(**found | {"store": store, "component": Configured(**found["component"]), "images": images})


def _values(planned: PlannedDataset | PlannedPartition) -> dict[str, Any]:
    return _shallow(planned) | {"component": asdict(planned.component)}


def _shallow(one: PlannedDataset | PlannedPartition | Experiment) -> dict[str, Any]:
    return {f.name: getattr(one, f.name) for f in fields(one)}
