"""Which results under other code are of a planned cell, and what differs."""

import pytest
from earlier import make_earlier, train_all
from studies import prepared, study_of

from fedgrid.components import Component, describe, hp, identity
from fedgrid.files import read_table, write_table
from fedgrid.grid.earlier.other_code import (
    edited_modules,
    has_settings_of,
    newest_under_other_code,
    waiting_under_other_code,
)

ROWS = {"plain": {"method": "fedavg"}, "momentum": {"method": "fedavg", "training": {"momentum": 0.9}}}


class Later(Component):
    """With a setting of each kind."""

    lr: float = hp(0.1, was="rate")
    sample: int | None = hp(None, since="0.2")


@pytest.fixture
def study(working_folder):
    """Two trained cells of FedAvg, with momentum and without."""
    study = prepared(study_of(methods=ROWS, training={"rounds": 1}, seeds=[0]))
    train_all(study)
    return study


def test_a_later_setting_enters_keys_only_where_it_is_set():
    about = describe(Later)
    assert identity(about, {"lr": 0.1, "sample": None}) == {"lr": 0.1}
    assert identity(about, {"lr": 0.1, "sample": 3}) == {"lr": 0.1, "sample": 3}
    assert identity(about, {"rate": 0.1}) == {"lr": 0.1}


def test_a_specification_of_a_time_without_a_setting_is_that_of_its_default(study):
    cell = study.cells[0]
    spec = cell.spec
    assert "eval_sample" not in spec["training"] and has_settings_of(cell, spec)
    assert has_settings_of(cell, spec | {"training": spec["training"] | {"eval_sample": None}})
    assert not has_settings_of(cell, spec | {"training": spec["training"] | {"eval_sample": 3}})
    assert not has_settings_of(cell, spec | {"seed": 7})


def test_results_under_other_code_are_found_by_their_settings(study):
    plain, momentum = study.cells
    assert newest_under_other_code(plain) is None
    file = make_earlier(plain)
    results = newest_under_other_code(plain)
    assert (results.file, results.metadata.key, edited_modules(results)) == (file, plain.key[::-1], {"fedgrid.tree"})
    assert newest_under_other_code(momentum) is None


def test_the_newest_of_several_is_found(study):
    cell = study.cells[0]
    table, about = read_table(make_earlier(cell))
    newer = cell.file.with_name(f"s{cell.seed}-{'f' * 16}.parquet")
    write_table(newer, table, about | {"key": "f" * 16, "finished": "2999-01-01T00:00:00+00:00"})
    assert newest_under_other_code(cell).file == newer


def test_results_of_other_images_are_none_of_the_cells(study):
    cell = study.cells[0]
    table, about = read_table(make_earlier(cell))
    write_table(cell.file.with_name(f"s{cell.seed}-{about['key']}.parquet"), table, about | {"images": "0" * 64})
    assert newest_under_other_code(cell) is None


def test_cells_that_wait_are_named_once_and_finished_ones_not_at_all(study):
    plain, momentum = study.cells
    finished = plain.file.read_bytes()
    for cell in study.cells:
        make_earlier(cell)
    plain.file.write_bytes(finished)
    assert [results.cell for results in waiting_under_other_code([*study.cells, *study.cells])] == [momentum]


def test_a_finished_cell_that_lacks_an_artifact_does_not_wait_for_its_code(study):
    cell = study.cells[0]
    finished = cell.file.read_bytes()
    make_earlier(cell)
    cell.file.write_bytes(finished)
    asking = study_of(methods=ROWS, training={"rounds": 1}, seeds=[0], artifacts=["representations"]).cells[0]
    assert asking.key == cell.key and asking.waiting and newest_under_other_code(asking)
    assert waiting_under_other_code([asking]) == []
