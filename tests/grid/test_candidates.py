"""Which earlier results are of a planned cell, and which of a group are checked."""

from dataclasses import replace

import pytest
from earlier import make_earlier, train_all
from studies import prepared, study_of

from fedgrid.components import Component, describe, hp, identity
from fedgrid.files import read_metadata
from fedgrid.grid.adoption.candidates import (
    NOT_RECORDED,
    Circumstances,
    earlier,
    groups,
    has_settings_of,
)
from fedgrid.grid.adoption.coverage import choices_of, to_check

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
        chosen = to_check(group, least)
        assert {one.cell.row.label for one in chosen} == {"plain", "momentum"}
        assert min(least, 4) <= len(chosen) <= max(2, min(least, 4) + 1)
        assert len({one.key for one in chosen}) == len(chosen)


def test_numbers_count_as_choices_by_their_limits(study):
    make_earlier(study.cells[0])
    choices = set(choices_of(next(earlier(study.cells[0]))))
    assert ("training.momentum", "at its lowest") in choices and ("training.participation", "at its highest") in choices
    assert ("training.lr", "inside its limits") in choices and ("training.clip", None) in choices
    assert read_metadata(next(earlier(study.cells[0])).file)["spec"]["training"]["momentum"] == 0.0
