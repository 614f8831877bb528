"""``fedgrid verify``: finished cells are trained again elsewhere and compared."""

import pytest
from earlier import edited, train_all, trained_study
from studies import prepared

from fedgrid.api.study_file import read_study
from fedgrid.api.verification import comparable, sample
from fedgrid.cli.main import main
from fedgrid.files import read_table, write_table

EQUAL = "2 cells trained again: every recorded bit is the same\n"


@pytest.fixture
def study(working_folder):
    """Two finished cells."""
    return trained_study(working_folder)


def rewrite(cell, edit=lambda rows: None, **metadata):
    """Change what is recorded of a cell."""
    table, about = read_table(cell.file)
    rows = table.to_pylist()
    edit(rows)
    write_table(cell.file, type(table).from_pylist(rows, table.schema), about | metadata)


def test_equal_cells_are_said_to_be_equal_and_stay_as_they_are(study, output):
    before = {file: file.stat().st_mtime_ns for file in study.store.rglob("*") if file.is_file()}
    lines = output("verify", "--seed", 3)
    assert lines.startswith("2 of the 2 finished cells that this machine can compare, drawn with --seed 3\n")
    assert lines.count("\nequal    local, digits, ") == 2 and lines.endswith(EQUAL)
    assert {file: file.stat().st_mtime_ns for file in study.store.rglob("*") if file.is_file()} == before


def test_one_bit_is_a_difference(study, capsys):
    rewrite(study.cells[1], edited(1, "accuracy_trained"))
    assert main(["verify"]) == 1
    lines = capsys.readouterr().out
    assert lines.count("\nequal    local") == 1
    assert "\ndiffers  local, digits, " in lines and "round 1, accuracy_trained of client 0: " in lines
    assert lines.endswith("1 of 2 cells differ\n")


def test_data_and_partitions_that_are_not_there_are_made(study, output):
    """As in a store that has cells from an archive alone."""
    for file in [*study.store.glob("data/*/*"), *study.store.glob("partitions/*/*/*")]:
        file.unlink()
    assert output("verify").endswith(EQUAL)


@pytest.mark.parametrize("naming", [(), ("--configfile",)])
def test_studies_with_folders_of_their_own_are_verified_together(study, tmp_path, output, naming):
    first, second = tmp_path / "config/study.yaml", tmp_path / "second.yaml"
    second.write_text(first.read_text().replace("seeds:\n- 0\n- 1\n", "seeds: [2]\n") + "results: elsewhere\n")
    train_all(prepared(read_study(second)))
    text = output("verify", *naming, first, second)
    assert text.endswith("3 cells trained again: every recorded bit is the same\n")


def test_cells_of_other_circumstances_are_counted_and_left_out(study, output, complaint):
    versions = read_table(study.cells[0].file)[1]["versions"]
    rewrite(study.cells[0], versions=versions | {"torch": "1.0"})
    lines = output("verify")
    assert "1 of the 1 finished cells that" in lines
    assert "1 other cannot be compared here: computed with torch 1.0 (here " in lines
    rewrite(study.cells[1], versions=versions | {"torch": "1.0"})
    message = "no finished cell can be compared on this machine; 2 were computed with torch 1.0 (here "
    assert message in complaint("verify")


def test_without_finished_cells_there_is_nothing_to_verify(study, complaint):
    for cell in study.cells:
        cell.file.unlink()
    assert "no cell of these studies is finished" in complaint("verify")
    assert "--cells: must be at least 1, got 0" in complaint("verify", "--cells", 0)


def test_a_sample_is_drawn_at_random_and_again_by_its_seed(study):
    cells, elsewhere = comparable([study])
    assert [cell.key for cell in cells] == sorted(cell.key for cell in study.cells) and not elsewhere
    many = cells * 20
    assert sample(many, 5, 1) == sample(many, 5, 1) and len(sample(cells, 5, 1)) == 2
    assert len({tuple(cell.key for cell in sample(many, 5, seed)) for seed in range(20)}) > 5
