"""What a study reads is looked up beside its file."""

from pathlib import Path

import pytest
from studies import study_of

from fedgrid.errors import UserError
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import COMMAND_LINE, Origin
from fedgrid.grid.study.yaml_file import read

METHOD = "from fedgrid.methods.fedavg import FedAvg\nclass Mine(FedAvg):\n    pass\n"
STUDY = "{name: s, data: digits, heterogeneity: [{partition: homogeneous, clients: 2}], methods: {a: {method: %s}}}"
IN_STUDIES = Origin("studies/s.yaml", 3, "methods.a.method")


@pytest.fixture
def folder(working_folder):
    for name in ("studies", "methods"):
        Path(name).mkdir()
    return working_folder


@pytest.mark.parametrize(
    ("text", "path"),
    [("m.py", "studies/m.py"), ("../methods/m.py", "methods/m.py"), ("/data/m.py", "/data/m.py"), ("~/m.py", "~/m.py")],
)
def test_a_path_in_a_file_is_relative_to_the_file(folder, text, path):
    assert IN_STUDIES.input_path(text) == path


@pytest.mark.parametrize("origin", [Origin(), Origin(COMMAND_LINE, key="data")])
def test_any_other_path_is_relative_to_the_working_folder(folder, origin):
    assert origin.input_path("mine.py") == "mine.py"


def test_a_path_that_is_relative_to_the_working_folder_is_answered_with_the_right_one(folder):
    Path("methods/mine.py").write_text(METHOD)
    Path("studies/s.yaml").write_text(STUDY % "methods/mine.py")
    expected = r"studies/s\.yaml:1: methods\.a\.method: 'methods/mine\.py' .*; write '\.\./methods/mine\.py'"
    with pytest.raises(UserError, match=expected):
        planned_study(read(Path("studies/s.yaml")))


def test_where_a_study_lies_changes_no_key(folder):
    Path("methods/mine.py").write_text(METHOD)
    Path("studies/s.yaml").write_text(STUDY % "../methods/mine.py")
    below = planned_study(read(Path("studies/s.yaml")))
    above = study_of(STUDY % "methods/mine.py")
    assert below.cells[0].row.component.reference == "methods/mine.py"
    assert below.cells[0].key == above.cells[0].key
