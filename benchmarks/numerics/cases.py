"""The cells that are compared: those of ``matrix.yaml``, and for each method and model its flags and choices."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.numerics.worker import AT_A_STRETCH, NOT_AT_ALL, name_of
from fedgrid.errors import UserError
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.ledger import ENGINE, FEATURES
from fedgrid.grid.study.sections import Section
from fedgrid.grid.study.sources import Sources
from fedgrid.loading import names

MATRIX = Path(__file__).with_name("matrix.yaml")
EXECUTORS = ("loop", "stacked")
EACH, SOME = "each", "some"
NESTED = ("training", "model")
"Sections of which a case replaces single settings."


@dataclass(frozen=True)
class Case:
    """Cells of one study; the fields but for the last are what `benchmarks.numerics.worker` reads."""

    name: str
    study: Mapping[str, Any]
    trained: str
    "How; see `benchmarks.numerics.worker`."
    reached: Mapping[str, frozenset[str]]
    "By name of a cell, the modules that can change what is compared."

    def reaching(self, modules: Iterable[str]) -> "Case":
        """With those cells alone whose numbers one of the `modules` can change."""
        wanted = {*modules}
        return replace(self, reached={name: used for name, used in self.reached.items() if used & wanted})

    @property
    def job(self) -> dict[str, Any]:
        """As the worker reads it."""
        return {"name": self.name, "study": self.study, "trained": self.trained, "cells": sorted(self.reached)}


def cases() -> Iterator[Case]:
    """All cases; combinations that planning refuses, as a method with steps of its own and Adam, are left out."""
    matrix = yaml.safe_load(MATRIX.read_text(encoding="utf-8"))
    for name, changes in (matrix["cases"] | dict(_variants(matrix["variants"]))).items():
        executors = EXECUTORS[:1] if changes.get("trained") == NOT_AT_ALL else EXECUTORS
        for executor in changes.get("executors", executors):
            yield from _of_methods(f"{name}, {executor}", _study(matrix, changes, executor), changes)


def _study(matrix: Mapping[str, Any], changes: Mapping[str, Any], executor: str) -> dict[str, Any]:
    """The base of the matrix with the settings of a case."""
    base = matrix["base"]
    nested = {name: base[name] | changes[name] for name in NESTED if name in changes and "name" not in changes[name]}
    settings = {name: value for name, value in changes.items() if name not in ("trained", "executors")}
    groups = {EACH: list(names("methods")), SOME: matrix["some"]}
    methods = settings.get("methods", ["local"])
    study = base | settings | nested
    return study | {
        "methods": groups[methods] if isinstance(methods, str) else methods,
        "compute": {"executor": executor, "device": "cpu"},
    }


def _variants(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A case for each flag and choice of each method and model, and for the other settings that the matrix names."""
    for name in names("methods"):
        given = settings["methods"].get(name, [])
        for values in [*(given if isinstance(given, list) else [given]), *_choices("methods", name)]:
            yield f"{name} {_words(values)}", {"methods": [{"method": name, **values}]}
    for name, small in settings["models"].items():
        for values in [{}, *_choices("models", name)]:
            yield f"{name} {_words(values)}", _of_model({"name": name, **small, **values})


def _of_model(model: Mapping[str, Any]) -> dict[str, Any]:
    data = {"name": "synthetic", "channels": 3, "size": 16, "train_images": 90, "test_images": 30}
    kind = {"partition": "dirichlet", "beta": 1.0, "clients": 3}
    return {"methods": ["fedper"], "model": model, "data": data, "heterogeneity": [kind], "training": {"rounds": 2}}


def _choices(kind: str, name: str) -> Iterator[dict[str, Any]]:
    """Each flag of a component turned over, and each value of each choice that is not its default."""
    for parameter in description(kind, name)["parameters"]:
        values = parameter.get("choices") or ((True, False) if parameter["types"] == ["bool"] else ())
        yield from ({parameter["name"]: value} for value in values if value != parameter["default"])


def _words(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _of_methods(name: str, study: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[Case]:
    """A case for every method of a study that planning lets pass."""
    trained = changes.get("trained", AT_A_STRETCH)
    for method in study["methods"]:
        label = method if isinstance(method, str) else method["method"]
        alone = dict(study) | {"methods": [method]}
        with suppress(UserError):
            planned = planned_study(Section(alone))
            reached = {name_of(cell): _reached(cell, trained) for cell in planned.cells}
            yield Case(f"{name}, {label}".replace("/", "-"), alone, trained, reached)


def _reached(cell: Cell, trained: str) -> frozenset[str]:
    """The modules that can change what a cell computes, or its images and partition alone."""
    partition = cell.partition
    entries = {partition.component.module, partition.data.component.module}
    entries |= {FEATURES} if partition.data.backbone else set()
    entries |= {ENGINE, cell.row.component.module, cell.model.module} if trained != NOT_AT_ALL else set()
    return frozenset(Sources.of().closure(entries))
