"""What is compared: cells of ``matrix.yaml``, flags and choices of each method and model, and data sets that are read.

`cases` takes the folder of the files that cases read; see `benchmarks.numerics.inputs`.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
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
from fedgrid.grid.study.model import Configured
from fedgrid.grid.study.sections import Section
from fedgrid.grid.study.sources import Sources
from fedgrid.loading import names

MATRIX = Path(__file__).with_name("matrix.yaml")
EXECUTORS = ("loop", "stacked")
EACH, SOME = "each", "some"
INPUTS = "{inputs}"
"Stands in the matrix for the folder of the files that cases read."
REFUSED = "refused"
"In place of the names of cells of a study that planning refuses."
OF_FILES = "fedgrid.partition.common.dealt_rows"
"The module that checks what a user's own kind of partition deals out."
PREPARED = ("data", "heterogeneity", "seeds")
"What images and partitions depend on: they are compared once, however many cases are trained on them."
NESTED = ("training", "model")
"Sections of which a case replaces single settings."


@dataclass(frozen=True)
class Case:
    """Cells of one study, or one data set as its authors' own files give it."""

    name: str
    work: Mapping[str, Any]
    "What `benchmarks.numerics.worker` reads beside the name and the cells."
    reached: Mapping[str, frozenset[str]]
    "By name of a cell, or by that of the data set, the modules that can change what is compared."

    def reaching(self, modules: Iterable[str]) -> "Case":
        """With those cells alone whose numbers one of the `modules` can change."""
        wanted = {*modules}
        return replace(self, reached={name: used for name, used in self.reached.items() if used & wanted})

    @property
    def job(self) -> dict[str, Any]:
        """As the worker reads it."""
        return {"name": self.name, **self.work, "cells": sorted(self.reached)}


def cases(inputs: Path, modules: Set[str] | None = None) -> Iterator[Case]:
    """All cases, or those with a cell whose numbers one of the `modules` can change, with such cells alone.

    Combinations that planning refuses, as a method with steps of its own and Adam, are left out.
    """
    planned = (case if modules is None else case.reaching(modules) for case in _cases(inputs, modules))
    return (case for case in planned if case.reached)


def _cases(inputs: Path, modules: Set[str] | None) -> Iterator[Case]:
    matrix = yaml.safe_load(MATRIX.read_text(encoding="utf-8").replace(INPUTS, str(inputs)))
    prepared: list[tuple[object, ...]] = []
    for name, changes in (matrix["cases"] | dict(variants(matrix["variants"]))).items():
        study, trained = _study(matrix, changes, EXECUTORS[0]), changes.get("trained", AT_A_STRETCH)
        if (made := tuple(study[section] for section in PREPARED)) not in prepared:
            prepared.append(made)
            yield from _of_methods(f"inputs of {name}", study | {"methods": ["local"]}, NOT_AT_ALL, modules)
        for executor in () if trained == NOT_AT_ALL else changes.get("executors", EXECUTORS):
            yield from _of_methods(f"{name}, {executor}", _study(matrix, changes, executor), trained, modules)
    for folder, settings in matrix["originals"].items():
        yield from (_of_original(inputs / "originals" / folder, values) for values in settings)


def _study(matrix: Mapping[str, Any], changes: Mapping[str, Any], executor: str) -> dict[str, Any]:
    """The base of the matrix with the settings of a case."""
    base = matrix["base"]
    nested = {name: base[name] | changes[name] for name in NESTED if name in changes and "name" not in changes[name]}
    settings = {name: value for name, value in changes.items() if name not in ("trained", "executors")}
    groups = {EACH: list(names("methods")), SOME: matrix["some"]}
    methods = settings.get("methods", ["local"])
    study = base | settings | nested
    return study | {
        "methods": [_spelled(matrix, method) for method in (groups[methods] if isinstance(methods, str) else methods)],
        "compute": {"executor": executor, "device": "cpu"},
    }


def _spelled(matrix: Mapping[str, Any], method: str | dict[str, Any]) -> str | dict[str, Any]:
    """A row with settings whose defaults have changed since its numbers were listed, so that trees agree on them."""
    name, values = (method, {}) if isinstance(method, str) else next(iter(method.items()))
    values = matrix["spelled"].get(name, {}) | values
    return {name: values} if values else name


def variants(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A case for each flag and choice of each method and model, and for the other settings that the matrix names.

    Code of a method is the same for both executors, so the settings of methods have one case each.
    """
    for name in names("methods"):
        given = settings["methods"].get(name, [])
        for values in [*(given if isinstance(given, list) else [given]), *_choices("methods", name)]:
            yield f"{name} {_words(values)}", {"methods": [{name: values}], "executors": EXECUTORS[:1]}
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


def _of_methods(name: str, study: Mapping[str, Any], trained: str, modules: Set[str] | None) -> Iterator[Case]:
    """A case for every method of a study that planning lets pass.

    Planning has to let pass what is not trained: where an edit makes it refuse that, the worker says so.
    """
    for method in study["methods"]:
        label = method if isinstance(method, str) else next(iter(method))
        if modules is not None and trained != NOT_AT_ALL and not _may_reach(study, label, modules):
            continue
        alone = dict(study) | {"methods": [method]}
        reached: dict[str, frozenset[str]] = {}
        with suppress(UserError):
            planned = planned_study(Section(alone))
            reached = {name_of(cell): _reached(cell, trained) for cell in planned.cells}
        if trained == NOT_AT_ALL and not reached:
            reached = {REFUSED: frozenset(Sources.of().below("fedgrid"))}
        yield Case(f"{name}, {label}".replace("/", "-"), {"study": alone, "trained": trained}, reached)


def _may_reach(study: Mapping[str, Any], method: str, modules: Set[str]) -> bool:
    """Whether one of the modules is reached by what a study names, for planning all studies takes long."""
    entries = {ENGINE, f"fedgrid.methods.{method}", f"fedgrid.models.{study['model']['name']}"}
    return not modules.isdisjoint(Sources.of().closure(entries))


def _reached(cell: Cell, trained: str) -> frozenset[str]:
    """The modules that can change what a trained cell computes of its inputs, or, where it is not trained, these."""
    if trained != NOT_AT_ALL:
        return frozenset(Sources.of().closure([ENGINE, cell.row.component.module, cell.model.module]))
    kind, data = cell.partition.component, cell.partition.data
    reached = _modules(kind) | _modules(data.component)
    reached |= {*Sources.of().closure([FEATURES])} if data.backbone else set()
    return frozenset(reached | ({*Sources.of().closure([OF_FILES])} if kind.file else set()))


def _modules(component: Configured) -> set[str]:
    file = component.file and Path(component.file)
    return {*Sources.of(component.module, file or None).closure([component.module])}


def _of_original(folder: Path, settings: Mapping[str, Any]) -> Case:
    """A data set in its authors' own form; it has the name of the folder, unless the settings have one under `data`."""
    data = settings.get("data", folder.name)
    settings = {name: value for name, value in settings.items() if name != "data"}
    reached = frozenset(Sources.of().closure([f"fedgrid.data.{data}"]))
    name = " ".join(["original", folder.name, _words(settings)]).strip()
    return Case(name, {"data": data, "settings": settings, "folder": str(folder)}, {data: reached})
