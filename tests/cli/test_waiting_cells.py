"""What commands say of cells that wait because their results are of other code, and of adopted ones."""

import pytest
from earlier import make_adopted, make_earlier, trained_study

from fedgrid.cli.phrases import module_names, other_code_lines
from fedgrid.files import read_table, write_table


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Two finished cells."""
    monkeypatch.chdir(tmp_path)
    return trained_study(tmp_path)


@pytest.mark.parametrize("command", ["plan", "status"])
def test_why_cells_wait_is_said(study, output, command):
    assert "other code" not in output(command)
    make_earlier(study.cells[0])
    assert "1 cell has results under other code (tree edited)\n" in output(command)
    make_earlier(study.cells[1])
    assert "2 cells have results under other code (tree edited)\n" in output(command)


def test_where_no_module_of_the_cell_is_edited_it_was_its_partition_or_data(study):
    cell = study.cells[0]
    modules = read_table(cell.file)[1]["modules"]
    file = make_earlier(cell)
    table, about = read_table(file)
    write_table(file, table, about | {"modules": modules})
    (line,) = other_code_lines([study])
    assert line == "1 cell has results under other code (code of the partition or the data edited)"


def test_four_modules_are_named():
    names = [f"fedgrid.engine.{letter}" for letter in "abcdef"]
    assert module_names(names[:2]) == "engine/a, engine/b"
    assert module_names(names) == "engine/a, engine/b, engine/c, engine/d and 2 more"


def test_an_adopted_cell_is_used_as_any_other_and_says_where_it_comes_from(study, output):
    make_adopted(study.cells[0])
    assert "2 cells, 2 cached, 0 to run" in output("plan")
    assert "adopted    from of 0000000000000000 of code 0000000000000000, checked on 2 of 6 cells on 2027-07-01; " in (
        output("explain", study.cells[0].key)
    )
    assert output("verify").endswith("2 cells trained again: every recorded bit is the same\n")
