"""Every mistake in a study names its file and line: some hundreds of studies, each with one mistake."""

import copy
import re
from pathlib import Path

import pytest
import yaml
from papers import PAPER, write_paper
from studies import parsed

from fedgrid.errors import UserError
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.yaml_file import read

STUDY = parsed(PAPER)
WRONG = {"a mapping": {"x": {"y": 1}}, "a list": [["x"]], "a negative number": -1, "a text": "no such thing"}
FREE_TEXT = ("label", "title", "says", "source", "lacks", "assumed", "name", "results")
"Keys whose value may be any text."


def paths(value, path=()):
    """The paths of all values of a study."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inside:
        yield (*path, key)
        yield from paths(below, (*path, key))


def changed(path, change):
    """The paper with the mapping or list at a path changed."""
    study = copy.deepcopy(STUDY)
    inside = study
    for key in path[:-1]:
        inside = inside[key]
    change(inside, path[-1])
    return study


def misspelt(inside, key):
    inside[f"{key}x"] = inside.pop(key)


def mistakes():
    """Studies, by the path and the kind of the mistake."""
    for path in paths(STUDY):
        key, inside = path[-1], path[:-1]
        if isinstance(key, str) and inside[-1:] not in (("experiments",), ("scales",), ("methods",), ("assumed",)):
            yield (path, "misspelt"), changed(path, misspelt)
        for kind, value in WRONG.items():
            if (key not in FREE_TEXT and not {*FREE_TEXT} & {*path}) or kind != "a text":
                yield (path, kind), changed(path, lambda there, key, value=value: there.__setitem__(key, value))


@pytest.fixture(autouse=True)
def folder(working_folder):
    write_paper(working_folder)


def test_every_mistake_names_its_line():
    refused, without_line = 0, []
    for place, study in mistakes():
        text = yaml.safe_dump(study, sort_keys=False)
        Path("study.yaml").write_text(text)
        try:
            planned_study(read(Path("study.yaml")))
        except UserError as error:
            refused += 1
            line = re.match(r"study\.yaml:(\d+): ", str(error))
            if not line or int(line[1]) > text.count("\n") or "\n" in str(error):
                without_line.append((place, str(error)))
    assert not without_line and refused >= 300
