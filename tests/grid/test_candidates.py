"""Which earlier results are of a planned cell, and which of a group are checked."""

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import pyarrow as pa
import pytest
from earlier import make_earlier, train_all
from studies import prepared, study_of

from fedgrid.components import Component, describe, hp, identity
from fedgrid.files import read_metadata, write_table
from fedgrid.grid.adoption.candidates import (
    NOT_RECORDED,
    Candidate,
    Circumstances,
    Group,
    earlier,
    groups,
    has_settings_of,
)
from fedgrid.grid.adoption.choices import choices_of, clients_of
from fedgrid.grid.adoption.coverage import choose_cells_to_check

ROWS = {"plain": {"method": "fedavg"}, "momentum": {"method": "fedavg", "training": {"momentum": 0.9}}}


class Later(Component):
    """With a setting of each kind."""

    lr: float = hp(0.1, was="rate")
    sample: int | None = hp(None, since="0.2")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Four trained cells of FedAvg, with momentum and without."""
    monkeypatch.chdir(tmp_path)
    study = prepared(study_of(methods=ROWS, training={"rounds": 1}))
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


def test_earlier_results_are_found_by_their_settings(study):
    cell = study.cells[0]
    file = make_earlier(cell)
    (candidate,) = earlier(cell)
    assert candidate.file == file and candidate.edited == ("fedgrid.tree",)
    assert candidate.store == study.store


def test_results_without_an_artifact_that_is_asked_for_are_no_candidates(study):
    cell = study.cells[0]
    make_earlier(cell)
    asking = study_of(methods=ROWS, training={"rounds": 1}, artifacts=["representations"]).cells[0]
    assert asking.key == cell.key and not list(earlier(asking))


def test_results_of_both_codes_are_evidence_already(study):
    kept = study.cells[0].file.read_bytes()
    for cell in study.cells:
        make_earlier(cell)
    study.cells[0].file.write_bytes(kept)
    (group,) = groups(study.cells)
    assert [candidate.cell for candidate in group.checked] == [study.cells[0]] and len(group.candidates) == 3


def test_what_keeps_bits_from_being_compared_is_named():
    here = Circumstances("EPYC", "avx2 avx512f", 1, "loop", "cpu", "2.6", "2.1")
    assert here.agrees(replace(here, instructions=NOT_RECORDED))
    other = replace(here, processor="Xeon", instructions="amx avx2", torch="2.5")
    assert other.differences(here) == [
        "processor Xeon (here EPYC)",
        "torch 2.5 (here 2.6)",
        "amx (missing here)",
        "no avx512f (present here)",
    ]


def test_every_choice_of_a_group_is_covered(study):
    for cell in study.cells:
        make_earlier(cell)
    (group,) = groups(study.cells)
    for least in (1, 2, 3, 9):
        chosen = choose_cells_to_check(group, least)
        assert {one.cell.row.label for one in chosen} == {"plain", "momentum"}
        assert min(least, 4) <= len(chosen) <= max(2, min(least, 4) + 1)
        assert len({one.key for one in chosen}) == len(chosen)


def test_numbers_count_as_choices_by_their_limits(study):
    make_earlier(study.cells[0])
    choices = set(choices_of(next(earlier(study.cells[0]))))
    assert ("training.momentum", "at its lowest") in choices and ("training.participation", "at its highest") in choices
    assert ("training.lr", "inside its limits") in choices and ("training.clip", None) in choices
    assert read_metadata(next(earlier(study.cells[0])).file)["spec"]["training"]["momentum"] == 0.0


def group_of(rows, checked=(), **study):
    """Cells of FedAvg as if all had results under earlier code; those of the rows in `checked` are checked already."""
    group = Group("fedavg", "mlp", "before", "now", SimpleNamespace())
    for cell in study_of(methods=rows, **study).cells:
        candidate = Candidate(cell, cell.file, {"key": cell.key[::-1], "status": "ok"})
        (group.checked if cell.row.label in checked else group.candidates).append(candidate)
    return group


def labels(candidates):
    return {candidate.cell.row.label for candidate in candidates}


def test_two_choices_that_meet_in_one_row_alone_are_covered_together():
    """Each value of the three settings also occurs in cells of other rows."""
    settings = {"momentum": 0.9, "clip": 0.5, "optimizer": "adam"}
    rows = {
        f"{first} {second}": {"method": "fedavg", "training": {first: settings[first], second: settings[second]}}
        for first, second in combinations(settings, 2)
    }
    group = group_of(ROWS | rows, seeds=[0, 1, 2, 3])
    assert labels(choose_cells_to_check(group, 1)) >= set(rows)
    assert len(choose_cells_to_check(group, 1)) < len(group.candidates) / 2


def test_the_smallest_and_the_largest_of_a_number_are_covered():
    """All lie inside the limits of the setting, so that nothing else tells the rows apart."""
    rows = {f"{n} epochs": {"method": "fedavg", "training": {"local_epochs": n}} for n in (1, 2, 3, 4, 5)}
    assert labels(choose_cells_to_check(group_of(rows), 1)) == {"1 epochs", "5 epochs"}
    assert labels(choose_cells_to_check(group_of(rows, checked=["5 epochs"]), 1)) >= {"1 epochs", "4 epochs"}


def test_what_all_candidates_have_and_no_checked_cell_has_is_covered():
    group = group_of(ROWS, checked=["plain"], seeds=[0])
    assert labels(choose_cells_to_check(group, 1)) == {"momentum"}


def test_every_data_set_is_covered():
    group = group_of(["fedavg"], data=["digits", "synthetic"], seeds=list(range(8)))
    assert {one.cell.partition.data.name for one in choose_cells_to_check(group, 1)} == {"digits", "synthetic"}


def test_results_that_diverged_are_covered():
    group = group_of(["fedavg"], seeds=list(range(8)))
    group.candidates[3].metadata["status"] = "diverged"
    assert group.candidates[3] in choose_cells_to_check(group, 1)


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        ({"train": [[0] * 4 + [1] * 4] * 2, "test": [[0], [1]]}, []),
        ({"train": [[0] * 8, [0, 1] * 4], "test": [[0], [1]]}, ["one class"]),
        ({"train": [[0] * 4 + [1] * 4, []], "test": [[0], [1]]}, ["no training image"]),
        ({"train": [[0, 1] * 4, [0, 1, 1]], "test": [[0], [1]]}, ["less than a batch"]),
        ({"train": [[0, 1] * 4, [0, 1, 1, 0, 1]], "test": [[0], [1]]}, ["a last batch of one image"]),
        ({"train": [[0, 1] * 4] * 2, "test": [[0], []]}, ["no test image"]),
        ({"train": [[0, 1] * 4, [0] * 4], "validation": [[], [1] * 4], "test": [[0], [1]]}, ["one class"]),
    ],
)
def test_kinds_of_clients(tmp_path, rows, kinds):
    """Two clients with batches of four, whose images `rows` lists by split as labels."""
    table = pa.Table.from_pylist(
        [
            {"client": client, "split": split, "label": label}
            for split, clients in rows.items()
            for client, images in enumerate(clients)
            for label in images
        ]
    )
    write_table(tmp_path / "partition.parquet", table, {"clients": 2, "classes": ["a", "b"]})
    assert clients_of(tmp_path / "partition.parquet", 4) == kinds


def test_a_partition_in_which_alone_a_client_has_one_class_is_covered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = group_of(["fedavg"], seeds=list(range(8)))
    for number, candidate in enumerate(group.candidates):
        labels_of_one = [0] * 32 if number == 5 else [0, 1] * 16
        rows = [("train", 0, label) for label in labels_of_one] + [("train", 1, label) for label in [0, 1] * 16]
        rows += [("test", client, 0) for client in (0, 1)]
        table = pa.table(dict(zip(("split", "client", "label"), zip(*rows, strict=True), strict=True)))
        write_table(candidate.cell.partition.file, table, {"clients": 2, "classes": ["a", "b"]})
    assert group.candidates[5] in choose_cells_to_check(group, 1)
