"""``fedgrid compare METHOD --against ARCHIVE``: a method beside a finished study, of which nothing is trained again."""

from pathlib import Path

import pytest
import yaml
from archives import PROJECT, contents, packed
from commands import complaint, output

from fedgrid.api.study_file import read_study
from fedgrid.cli import joining
from fedgrid.cli.joining import settled_rows
from fedgrid.grid.plan.manifest_model import RowDescription, SearchDescription, StudyDescription
from fedgrid.grid.study.yaml_file import read

ROWS = """
methods:
  - local
  - {ours: {method: fedprox, mu: 0.3, search: {mu: [0.1, 0.3]}, training: {batch_size: 8}}}
  - fedavg
  - all no federation
  - all own models
"""


@pytest.fixture
def archive(project, tmp_path, monkeypatch, capsys):
    """That of the project's study, in a folder that is then the working folder."""
    pytest.importorskip("rocrate")
    output(capsys, "bundle", "--without-models", "--out", str(tmp_path / "finished.zip"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    output(capsys, "new-method", "mine")
    return Path("../finished.zip")


def test_the_rows_of_an_archive_are_there_and_only_the_method_is_to_train(archive, capsys):
    text = output(capsys, "compare", "mine.py", "--against", str(archive))
    assert text.startswith("results: 16 cells of finished.zip added, 0 there already\n")
    assert "compare-mine.yaml is written: 5 methods, 20 cells." in text
    study = read_study(Path("compare-mine.yaml"))
    assert list(study.rows) == ["local", "fedavg", "ditto", "fedcosr", "mine"]
    assert {cell.row.label for cell in study.cells if not cell.file.exists()} == {"mine"}
    written = yaml.safe_load(Path("compare-mine.yaml").read_text())
    assert written["show"] == [{"table": "accuracy"}, {"table": "against"}]
    Path("compare-mine.yaml").unlink()
    again = output(capsys, "compare", "mine.py", "--against", str(archive))
    assert again.startswith("results: 0 cells of finished.zip added, 16 there already\n")


def test_the_ranking_is_an_archive_that_a_clone_has(archive, capsys, monkeypatch):
    monkeypatch.setattr(joining.shipped, "folder", lambda name: Path("shipped") / name)
    missing = complaint(capsys, "compare", "mine.py", "--against", "ranking")
    assert "a file of the repository, benchmarks/cells/ranking.zip, which is not here" in missing
    kept = Path("shipped/benchmarks/cells/ranking.zip")
    kept.parent.mkdir(parents=True)
    archive.rename(kept)
    text = output(capsys, "compare", "mine.py", "--against", "ranking")
    assert text.startswith("results: 16 cells of ranking.zip added, 0 there already\n")


def test_what_was_chosen_for_rows_is_what_they_have(working_folder):
    Path("study.yaml").write_text(ROWS)
    points = [{"training.lr": 0.1, "mu": 0.1}, {"training.lr": 0.3, "mu": 0.3}]
    searches = [
        SearchDescription(row, "digits", "drawn", points, [1000], [4], [], chosen)
        for row, chosen in (("ours", 1), ("fedavg", 0), ("local", None))
    ]
    rows = {row: RowDescription(row, row) for row in ("local", "ours", "fedavg")}
    study = StudyDescription("s", "S", methods=rows, searches=searches)
    local, ours, fedavg = settled_rows(read(Path("study.yaml")), study)
    assert local == "local"
    training = {"batch_size": 8, "lr": 0.3}
    assert ours == {"ours": {"method": "fedprox", "mu": 0.3, "search": False, "training": training}}
    assert fedavg == {"fedavg": {"mu": 0.1, "search": False, "training": {"lr": 0.1}}}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"study": ""}, "an archive of some cells, without their study"),
        ({}, "its study has experiments, and no single table"),
        (
            {"project": PROJECT | {"project/mine.py": b""}},
            "files of its own, such as project/mine.py: see fedgrid open",
        ),
    ],
)
def test_archives_without_one_table_of_fedgrids_own_methods_are_refused(files, problem, working_folder, capsys):
    Path("theirs.zip").write_bytes(packed(contents(**files)))
    assert problem in complaint(capsys, "compare", "fedprox", "--against", "theirs.zip")


def test_the_study_of_an_archive_says_everything_else(working_folder, capsys):
    of_data = complaint(capsys, "compare", "fedprox", "--against", "theirs.zip", "--data", "mnist")
    assert "--data: that is for the study of theirs.zip to say" in of_data
    beside = complaint(capsys, "compare", "fedprox", "--against", "theirs.zip", "fedavg")
    assert "--against: theirs.zip is a whole study, beside which nothing else can be named" in beside
