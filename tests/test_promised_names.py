"""Names that 1.x promises to keep, as tests/promised_names.txt lists them; docs/updates.md says what they are.

A release adds its new ones:

    PYTHONPATH=src:tests python tests/test_promised_names.py > tests/promised_names.txt
"""

import argparse
import dataclasses
import inspect
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import fedgrid
from fedgrid import methods
from fedgrid.analysis.scores.collect import COLUMNS
from fedgrid.api.partitions import ReadPartition
from fedgrid.api.results import StudyResults, Table
from fedgrid.api.studies import StudyFile
from fedgrid.api.training import TrainedCell
from fedgrid.cli.components import component_text
from fedgrid.cli.main import parser
from fedgrid.components import Component
from fedgrid.data.base import DataSet
from fedgrid.data.common.images import Images, RawDataset
from fedgrid.data.common.store import Labels
from fedgrid.data.families.drawn import DrawnDataSet
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.json_schema import study_schema
from fedgrid.loading import KINDS, names
from fedgrid.models.base import Model
from fedgrid.models.common.norm import BatchNorm
from fedgrid.partition.base import SampledPartition
from fedgrid.randomness import generator
from fedgrid.settings import Adversarial, Backbone, Compute, Training

FILE = Path(__file__).with_name("promised_names.txt")
RETURNED = (StudyFile, StudyResults, Table, TrainedCell, ReadPartition)
BASES = (Model, SampledPartition, DrawnDataSet, DataSet, RawDataset, Images, Labels, BatchNorm)
"What files of models, partitions and data sets import; of their members, those that `GUIDE` or a template names."
GUIDE = Path(__file__).parents[1] / "docs/extending.md"
INTERNAL = {"python: StudyFile.planned"}
"Public for the command line, and in no guide."


def current() -> list[str]:
    """The names of today, one a line and sorted: of what, and the name."""
    python = chain(
        *(of_object("fedgrid", name, getattr(fedgrid, name)) for name in fedgrid.EXPORTED), *map(of_class, RETURNED)
    )
    files = chain(
        *(of_object("fedgrid.methods", name, getattr(methods, name)) for name in methods.__all__),
        *(of_base(base) for base in BASES),
        of_object("fedgrid.randomness", "generator", generator),
    )
    kinds = {"python": python, "file": files, "setting": settings(), "study": keys(), "command": commands()}
    kinds["results.parquet"] = iter(COLUMNS)
    return sorted({f"{kind}: {name}" for kind, listed in kinds.items() for name in listed} - INTERNAL)


def of_object(module: str, name: str, thing: Any) -> Iterator[str]:
    """A name that a module has, with its parameters or its members."""
    yield f"from {module} import {name}"
    if inspect.isclass(thing) and thing.__module__.startswith("fedgrid"):
        yield from of_class(thing)
    elif inspect.isfunction(thing):
        yield from called(name, thing)


def of_base(base: type) -> Iterator[str]:
    """A class to derive from, or to fill, and those of its members that users read of."""
    yield f"from {base.__module__} import {base.__name__}"
    texts = [GUIDE.read_text(encoding="utf-8"), *(component_text(kind, "mine") for kind in KINDS)]
    words = {*re.findall(r"\w+", " ".join(texts))}
    yield from (member for member in of_class(base) if re.findall(r"\w+", member)[1] in words)


def of_class(cls: type) -> Iterator[str]:
    """Public members of a class that fedgrid defines; of those that are called, with their parameters."""
    members: dict[str, Any] = {}
    for base in reversed([base for base in cls.__mro__ if base.__module__.startswith("fedgrid")]):
        members |= dict.fromkeys(vars(base).get("__annotations__", ())) | vars(base)
    for name in sorted({*members} - {*dir(Component)}):
        function = getattr(members[name], "__func__", members[name])  # of a class method
        shown = f"{cls.__name__}.{name}"
        if not name.startswith("_"):
            yield from called(shown, function) if inspect.isfunction(function) else [shown]


def called(name: str, function: Any) -> Iterator[str]:
    """A function, and a line for each of its parameters: those that come later may be added, with a default."""
    yield f"{name}()"
    given = [parameter for parameter in inspect.signature(function).parameters.values() if parameter.name != "self"]
    for position, parameter in enumerate(given, start=1):
        yield f"{name}({'' if parameter.kind is parameter.KEYWORD_ONLY else f'{position} '}{parameter.name})"


def settings() -> Iterator[str]:
    """Of every component, and of training and computing."""
    for kind in KINDS:
        for name in names(kind):
            yield from (f"{kind} {name}.{setting['name']}" for setting in description(kind, name)["parameters"])
            yield f"{kind} {name}"
    for part in (Training, Adversarial, Compute, Backbone):
        yield from (f"{part.__name__.lower()}.{field.name}" for field in dataclasses.fields(part))


def keys() -> Iterator[str]:
    """Every key of a study with the one above it, and the words that it may have as a value."""
    schema = study_schema()

    def walk(part: Any, key: str) -> Iterator[str]:
        if isinstance(part, list):
            for entry in part:
                yield from walk(entry, key)
        elif isinstance(part, dict):
            if "$ref" in part:
                yield from walk(schema["$defs"][part["$ref"].removeprefix("#/$defs/")], key)
            yield from (f"{key} = {value}" for value in part.get("enum", ()))
            for name, below in part.get("properties", {}).items():
                yield f"{key}.{name}".lstrip(".")
                yield from walk(below, name)
            for word in ("items", "additionalProperties", "anyOf", "prefixItems"):
                yield from walk(part.get(word), key)

    return walk(schema, "")


def commands() -> Iterator[str]:
    """Every command with its options and what it takes without one."""
    (subcommands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, form in subcommands.choices.items():
        yield name
        for action in form._actions:
            options = action.option_strings or [action.dest.upper()]
            yield from (f"{name} {option}" for option in options if option not in ("-h", "--help"))


def test_names_are_those_that_were_promised():
    missing = sorted({*FILE.read_text(encoding="utf-8").splitlines()} - {*current()})
    assert not missing, f"1.x keeps these names, so a new one has to stand beside them: {missing}"


if __name__ == "__main__":
    print("\n".join(current()))
