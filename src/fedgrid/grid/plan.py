"""The plan of a run: a resolved study as one file, which every job of the run looks its work up in.

The study is resolved once, where the run begins. What cells share, such as a partition, stands in the file once.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fedgrid.errors import UserError
from fedgrid.files import write_text
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
        labels = {row.label: number for number, row in enumerate(study.rows)}
        places = {place: number for number, place in enumerate(study.partitions)}
        return {
            "configfile": self.configfile,
            "packs": {name: list(keys) for name, keys in self.packs.items()},
            "text": study.text,
            "training": dict(study.training),
            "compute": asdict(study.compute),
            "data_root": study.data_root and str(study.data_root),
            "model": asdict(study.model),
            "rows": [asdict(row) for row in study.rows],
            "datasets": [_dataset(data) for data in study.datasets.values()],
            "partitions": [_partition(partition) for partition in study.partitions.values()],
            "cells": [
                [labels[c.row.label], places[c.partition.key, c.partition.seed], c.seed, c.train_seed, c.code, c.key]
                for c in study.cells
            ],
        }

    @property
    def file(self) -> Path:
        """Where it is kept while its run is going: its name covers its content, so no other run ever changes it."""
        return self.study.store / "plans" / f"{self.study.name}-{digest(self.content())}.json"

    def write(self) -> Path:
        """Writes `file`, anew even where it is there: the newest plan of a study is that of its latest run."""
        write_text(self.file, json.dumps(self.content(), indent=1, ensure_ascii=False))
        return self.file


def read(file: Path) -> Plan:
    """The plan in a file; UserError where there is none."""
    try:
        return parsed(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{file}: there is no such plan of a run") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: not a plan of this version of fedgrid ({type(error).__name__}); delete it") from error


def parsed(content: Mapping[str, Any]) -> Plan:
    """The inverse of `Plan.content`."""
    text, model = content["text"], Configured(**content["model"])
    store, keep = Path(text["results"]) / "store", tuple(text.get("keep", ()))
    rows = [MethodRow(**row | {"component": Configured(**row["component"])}) for row in content["rows"]]
    datasets: dict[str, PlannedDataset] = {}
    for found in content["datasets"]:  # images stand before the features that are made of them
        images = datasets.get(found["images"])
        planned = {"store": store, "component": Configured(**found["component"]), "images": images}
        datasets[found["key"]] = PlannedDataset(**found | planned)
    partitions = [
        PlannedPartition(**p | {"component": Configured(**p["component"]), "data": datasets[p["data"]]})
        for p in content["partitions"]
    ]
    cells = [
        Cell(rows[row], partitions[place], model, *identity, keep=keep) for row, place, *identity in content["cells"]
    ]
    root = content["data_root"] and Path(content["data_root"])
    study = Study(text, content["training"], Compute(**content["compute"]), rows, model, cells, root)
    packs = {name: tuple(keys) for name, keys in content["packs"].items()}
    return Plan(study, content["configfile"], packs)


def _dataset(data: PlannedDataset) -> dict[str, Any]:
    return _shallow(data, leave=("store",)) | {"images": data.images and data.images.key}


def _partition(partition: PlannedPartition) -> dict[str, Any]:
    return _shallow(partition) | {"data": partition.data.key}


def _shallow(planned: PlannedDataset | PlannedPartition, leave: Iterable[str] = ()) -> dict[str, Any]:
    values = {f.name: getattr(planned, f.name) for f in fields(planned) if f.name not in leave}
    return values | {"component": asdict(planned.component)}
