"""The schema for editors: it is that of the forms, and takes the studies that fedgrid takes."""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from fedgrid.grid.study.json_schema import study_schema
from fedgrid.grid.study.sections import Section, StudyError
from fedgrid.grid.study.validation import study_file

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs/study.schema.json"
STUDIES = sorted([*ROOT.glob("config/**/*.yaml"), *ROOT.glob("benchmarks/results/**/*.yaml")])
WRONG = [
    {"seedz": [1]},
    {"seeds": [-1]},
    {"seeds": [1, 1]},
    {"name": "store"},
    {"methods": {}},
    {"methods": {"fedavg": 3}},
    {"heterogeneity": [{"beta": 1}]},
    {"heterogeneity": [{"partition": {"imports": "x"}}]},
    {"report": {"score": "best"}},
    {"scales": {"full": {}}},
    {"claims": [{"says": "x", "metric": "accurracy"}]},
    {"claims": [{"says": "x", "within": ["a", 0]}]},
    {"artifacts": ["model"]},
    {"search": {}},
    {"search": {"grid": {}}},
]


def mistakes(study):
    return [*Draft202012Validator(study_schema()).iter_errors(study)]


def test_the_published_schema_is_that_of_the_forms():
    command = "python -m fedgrid.grid.study.json_schema > docs/study.schema.json"
    assert json.loads(FILE.read_text(encoding="utf-8")) == study_schema(), command
    Draft202012Validator.check_schema(study_schema())


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_it_takes_studies(file):
    study = yaml.safe_load(file.read_text(encoding="utf-8"))
    if "name" not in study:
        pytest.skip("a file that studies include")
    assert not mistakes(study)


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_it_refuses_what_fedgrid_refuses(change):
    study = {"name": "s", "data": "digits", "heterogeneity": [{"partition": "dirichlet"}], "methods": ["local"]}
    assert not mistakes(study) and study_file(Section(study))
    assert mistakes(study | change)
    with pytest.raises(StudyError):
        study_file(Section(study | change))
