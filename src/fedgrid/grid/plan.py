"""The plan of a run: a resolved study as one file, which every job of the run looks its work up in.

The study is resolved once, where the run begins. What cells share, such as a partition, stands in the file once.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fedgrid.errors import Damaged
from fedgrid.files import read_json, write_json
from fedgrid.grid.identity import digest
from fedgrid.grid.planned import Cell, Configured, MethodRow, PlannedDataset, PlannedPartition, Study
from fedgrid.settings import Compute


@dataclass(frozen=True)
class Plan:
    """A study that is being run, with what the run adds to it."""

    study: Study
    configfile: str = ""
    "The study's file, as its user names it."
    packs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "Keys of the cells that share a job of a cluster, by the pack's name."

    def content(self) -> dict[str, Any]:
        """The plan as plain values; `parsed` is its inverse."""
        study = self.study
        rows = {row.label: number for number, row in enumerate(study.rows)}
        data = {name: number for number, name in enumerate(study.data)}
        partitions = {_named(cell.partition): cell.partition for cell in study.cells}
        places = {name: number for number, name in enumerate(partitions)}
        return {
            "configfile": self.configfile,
            "packs": {name: list(keys) for name, keys in self.packs.items()},
            "text": study.text,
            "training": dict(study.training),
            "compute": asdict(study.compute),
            "data_root": study.data_root and str(study.data_root),
            "model": asdict(study.model),
            "rows": [asdict(row) for row in study.rows],
            "data": [_dataset(one) for one in study.data.values()],
            "partitions": [_values(one) | {"data": data[one.data.label]} for one in partitions.values()],
            "cells": [
                [rows[c.row.label], places[_named(c.partition)], c.seed, c.train_seed, c.code, c.key]
                for c in study.cells
            ],
        }

    @property
    def file(self) -> Path:
        """Where it is kept while its run is going: its name covers its content, so no other run ever changes it."""
        return self.study.store / "plans" / f"{self.study.name}-{digest(self.content())}.json"

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
    text, model = content["text"], Configured(**content["model"])
    store, artifacts = Path(text["results"]) / "store", tuple(text.get("artifacts", ()))
    rows = [MethodRow(**row | {"component": Configured(**row["component"])}) for row in content["rows"]]
    data = [_parsed_dataset(found, store) for found in content["data"]]
    partitions = [
        PlannedPartition(**found | {"component": Configured(**found["component"]), "data": data[found["data"]]})
        for found in content["partitions"]
    ]
    cells = [
        Cell(rows[row], partitions[place], model, seed, train_seed, code, key, artifacts)
        for row, place, seed, train_seed, code, key in content["cells"]
    ]
    root = content["data_root"] and Path(content["data_root"])
    study = Study(text, content["training"], Compute(**content["compute"]), rows, model, cells, root)
    packs = {name: tuple(keys) for name, keys in content["packs"].items()}
    return Plan(study, content["configfile"], packs)


def _named(partition: PlannedPartition) -> tuple[str, str, int]:
    return partition.data.label, partition.slug, partition.seed


def _dataset(data: PlannedDataset) -> dict[str, Any]:
    """A data set as plain values, with its images where it holds their features; without the store."""
    values = {name: value for name, value in _values(data).items() if name != "store"}
    return values | {"images": data.images and _dataset(data.images)}


def _parsed_dataset(found: dict[str, Any], store: Path) -> PlannedDataset:
    images = found["images"] and _parsed_dataset(found["images"], store)
    return PlannedDataset(**found | {"store": store, "component": Configured(**found["component"]), "images": images})


def _values(planned: PlannedDataset | PlannedPartition) -> dict[str, Any]:
    return {f.name: getattr(planned, f.name) for f in fields(planned)} | {"component": asdict(planned.component)}
