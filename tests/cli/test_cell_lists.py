"""Lists of cells for other people: what `fedgrid plan --missing` writes, and what `--cells` takes."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from earlier import trained_study
from studies import FOUR_CELLS

from fedgrid.api.cell_lists import MissingCell, in_parts, listed_cells
from fedgrid.api.study_file import read_study
from fedgrid.cli.main import main

KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project with a study of four cells, of which the two of Local are finished."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        trained_study(folder)
        Path("config/study.yaml").write_text(FOUR_CELLS)
    return folder


@pytest.fixture
def study(trained, working_folder):
    """Its study, in a copy that is the working folder."""
    shutil.copytree(trained, working_folder, dirs_exist_ok=True)
    return read_study(Path("config/study.yaml"))


@pytest.fixture
def started(monkeypatch):
    """The command lines with which `fedgrid go` would become Snakemake."""
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, arguments: commands.append(arguments))
    return commands


def test_what_is_missing_is_what_go_computes(study, output, started):
    text = output("plan", "--missing")
    first, *lines = text.splitlines()
    assert first == "# cells for others to compute: fedgrid go config/study.yaml --cells THIS_FILE"
    missing = [cell for cell in study.cells if cell.waiting]
    assert [line.split()[0] for line in lines] == [cell.key for cell in missing]
    assert [line.split(maxsplit=2)[2] for line in lines] == [cell.description for cell in missing]
    assert all(float(line.split()[1]) > 0 for line in lines)
    Path("todo.txt").write_text(text)
    printed = output("go", "--cells", "todo.txt", "--cores", 1)
    assert printed.startswith("snakemake --cores 1 ") and printed.endswith(" and 2 files of cells\n")
    (command,) = started
    assert command[0] == sys.executable and [str(cell.file) for cell in missing] == command[4:6]


def test_as_json(study, output):
    listed = json.loads(output("plan", "--missing", "--json"))
    assert [set(cell) for cell in listed] == [{"what", "key", "seconds"}] * 2
    assert [cell["key"] for cell in listed] == [cell.key for cell in study.cells if cell.waiting]


def test_parts_are_files_that_share_the_cells(study, output, complaint):
    lines = output("plan", "--missing", "--parts", 2).splitlines()
    assert [line[:29] for line in lines] == ["written  todo-1.txt: 1 cell, ", "written  todo-2.txt: 1 cell, "]
    parts = [listed_cells(Path(f"todo-{number}.txt"), study) for number in (1, 2)]
    assert [cell.key for part in parts for cell in part] == [cell.key for cell in study.cells if cell.waiting]
    output("plan", "--missing", "--parts", 2)  # again
    Path("todo-2.txt").write_text("milk\n")
    assert "todo-2.txt is there and is no list of cells; move it away" in complaint("plan", "--missing", "--parts", 2)
    assert Path("todo-2.txt").read_text() == "milk\n"


def test_parts_take_about_the_same_time():
    cells = [MissingCell(str(seconds), f"{seconds}", seconds) for seconds in (8.0, 5.0, 4.0, 3.0, 2.0)]
    parts = in_parts([*cells, MissingCell("?", "?", None)], 2)
    assert [[cell.what for cell in part] for part in parts] == [["8.0", "4.0", "2.0"], ["5.0", "3.0", "?"]]
    assert in_parts([], 2) == [[], []]


def test_cells_that_wait_for_a_search_are_counted(working_folder, capsys):
    study = yaml.safe_load(FOUR_CELLS) | {"methods": {"fedavg": {"search": {"lr": [0.01, 0.05]}}}}
    study["heterogeneity"][0]["validation"] = 0.2
    Path("study.yaml").write_text(yaml.safe_dump(study))
    assert main(["plan", "study.yaml", "--missing"]) == 0
    printed = capsys.readouterr()
    assert "2 cells that wait for the choice of a search are not listed" in printed.err
    keys = [line.split()[0] for line in printed.out.splitlines()[1:]]
    assert set(keys) == {cell.key for cell in read_study(Path("study.yaml")).by_key.values() if not cell.pending}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "--cells: todo.txt names no cell; fedgrid plan --missing writes such a list"),
        ("# a comment\nmilk\n", "--cells: todo.txt, line 2 does not begin with the key of a cell: 'milk'"),
        (
            f"{KEY}  1.0  theirs, digits\n",
            "todo.txt: s does not have 1 of 1 listed cells, such as 'theirs, digits': the study, ",
        ),
    ],
)
def test_another_list_is_refused(text, sentence, study, complaint):
    Path("todo.txt").write_text(text)
    for command in ("go", "bundle"):
        assert sentence in complaint(command, "--cells", "todo.txt")


def test_options_that_do_not_go_together(study, complaint):
    assert "--cells: none.txt does not exist" in complaint("go", "--cells", "none.txt")
    assert "--parts: splits the list of --missing" in complaint("plan", "--parts", 2)
    assert "--parts: must be at least 1, got 0" in complaint("plan", "--missing", "--parts", 0)
    assert "--missing: lists cells itself" in complaint("plan", "--missing", "--cells")
    assert "--missing: a list is of one study, got 2" in complaint("plan", *["config/study.yaml"] * 2, "--missing")


def test_an_archive_of_cells_that_are_not_finished_is_refused(study, output, complaint):
    pytest.importorskip("rocrate")
    Path("todo.txt").write_text(output("plan", "--missing"))
    error = complaint("bundle", "--cells", "todo.txt")
    assert "seed 0 has no results, nor have 1 more of the list; run fedgrid go with the same --cells first" in error
