"""What of a cell code may branch on: kinds, flags, numbers at their limits, and what its clients hold."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from fedgrid.components import describe
from fedgrid.files import read_table
from fedgrid.grid.adoption.candidates import Candidate
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.model import Settings
from fedgrid.partition.common.rows import EVERYONE
from fedgrid.partition.common.statistics import class_counts
from fedgrid.settings import Backbone, Training

Choice = tuple[str, Any]
"A setting by its name with dots, and what was chosen."
Parameter = Mapping[str, Any]
"What `describe` says of a setting."
INSIDE, LOWEST, HIGHEST = "inside its limits", "at its lowest", "at its highest"


def choices_of(candidate: Candidate) -> Iterator[Choice]:
    """The choices of a cell; of a number, whether it lies at one of its limits; of clients, once they are dealt out."""
    cell = candidate.cell
    for name, parameter, value in _settings(candidate):
        yield name, _choice(parameter, value)
    yield "data", cell.partition.data.name
    yield "features", bool(cell.partition.data.backbone)
    yield "partition", cell.partition.component.name
    yield "partition.tested", cell.partition.tested
    for kind in cell.artifacts:
        yield "artifacts", kind
    yield "status", candidate.metadata["status"]
    if cell.partition.file.is_file():
        for kind in clients_of(cell.partition.file, cell.row.training["batch_size"]):
            yield "clients", kind


def numbers_of(candidate: Candidate) -> dict[str, float]:
    """The numbers among the settings of a cell, by name with dots."""
    return {name: value for name, parameter, value in _settings(candidate) if _is_number(parameter, value)}


@functools.cache
def clients_of(partition: Path, batch_size: int) -> list[str]:
    """Kinds of clients in a partition that code may treat apart."""
    table, about = read_table(partition, ["client", "split", "label"])
    training = table.filter(pc.equal(table["split"], "train"))
    trained, _ = class_counts(training, about["clients"], len(about["classes"]))
    _, tested = class_counts(table, about["clients"], len(about["classes"]))
    images, shared = trained.sum(axis=1), pc.any(pc.equal(table["client"], EVERYONE)).as_py()
    present = {
        "one class": ((trained > 0).sum(axis=1) == 1).any(),
        "no training image": (images == 0).any(),
        "less than a batch": ((images > 0) & (images < batch_size)).any(),
        "a last batch of one image": ((images > 0) & (images % batch_size == 1)).any(),
        "no test image": not shared and (tested.sum(axis=1) == 0).any(),
    }
    return [kind for kind, is_present in present.items() if is_present]


def _settings(candidate: Candidate) -> Iterator[tuple[str, Parameter, Any]]:
    """All settings of a cell: name with dots, what is known of it, and a value; of a list, each of its values."""
    cell = candidate.cell
    data, partition = cell.partition.data, cell.partition.component
    described = (
        ("method", description("methods", cell.row.component.reference), cell.row.component.settings),
        ("model", description("models", cell.model.reference), cell.model.settings),
        ("training", describe(Training), cell.row.training),
        ("partition", description("partition", partition.reference), partition.settings),
        ("data", description("data", data.component.reference), data.component.settings),
    )
    for where, about, settings in described:
        yield from _parameters(where, about, settings)
    if data.backbone:
        yield from _parameters("features", describe(Backbone), data.backbone)


def _parameters(where: str, about: Mapping[str, Any], settings: Settings) -> Iterator[tuple[str, Parameter, Any]]:
    for parameter in about["parameters"]:
        name, value = f"{where}.{parameter['name']}", settings[parameter["name"]]
        if isinstance(value, Mapping):
            yield name, {}, "given"
            yield from _parameters(name, parameter, value)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield from ((name, parameter, entry) for entry in value)
        else:
            yield name, parameter, value


def _choice(parameter: Parameter, value: Any) -> Any:
    """The value of a choice, a flag or a text; of a number, whether it lies at a limit."""
    if not _is_number(parameter, value):
        return value
    return LOWEST if value == parameter.get("low") else HIGHEST if value == parameter.get("high") else INSIDE


def _is_number(parameter: Parameter, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and "choices" not in parameter
