"""Where results come from, and how they are made again elsewhere."""

from pathlib import Path

import pytest

from fedgrid.analysis import origin

COMMIT = {"id": "0123abcd", "clean": True}
STUDY = {"name": "digits", "scale": "full", "commit": COMMIT, "methods": {"fedavg": {"title": "FedAvg", "file": None}}}


def test_a_clean_commit_needs_nothing_else():
    assert origin.commit(STUDY) == "Commit 0123abcd, with no change beside it."
    assert origin.steps(STUDY, "config/study.yaml") == [
        "git checkout 0123abcd",
        "snakemake --cores all --configfile config/study.yaml",
    ]
    assert origin.reservations(STUDY, "config/study.yaml") == []


def test_an_experiment_is_made_again_alone_and_at_its_scale():
    study = STUDY | {"name": "fedcosr-small/table2", "scale": "small"}
    assert origin.steps(study, "a.yaml")[-1].endswith("--configfile a.yaml --config scale=small only=table2")


def test_changes_that_are_in_no_commit_are_said():
    study = STUDY | {"commit": COMMIT | {"clean": False}}
    assert "with changes that are in no commit" in origin.commit(study)
    (sentence,) = origin.reservations(study, "config/study.yaml")
    assert sentence.startswith(
        "The tree had changes that are in no commit, so this commit alone may give other numbers"
    )


def test_code_outside_a_clone_has_no_commit():
    study = STUDY | {"commit": None}
    assert origin.commit(study).startswith("The commit is not known")
    assert origin.steps(study, "a.yaml") == ["snakemake --cores all --configfile a.yaml"]
    assert "version of fedgrid" in origin.reservations(study, "a.yaml")[0]


def test_a_file_of_ones_own_is_needed_too():
    study = STUDY | {"methods": {"fedavg": {"title": "FedAvg", "file": "mine/fedavg.py"}}}
    assert origin.reservations(study, "a.yaml") == ["You also need mine/fedavg.py (FedAvg)."]


@pytest.mark.parametrize("inside", [True, False])
def test_the_studys_file_is_said_as_another_machine_would(tmp_path, monkeypatch, inside):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "config/my.yaml" if inside else tmp_path.parent / "elsewhere/my.yaml"
    last = origin.steps(STUDY, str(file))[-1]
    assert last.endswith("--configfile config/my.yaml" if inside else "--configfile my.yaml")
    assert str(Path.cwd()) not in last
    said = origin.reservations(STUDY, str(file))
    assert said == ([] if inside else ["The study's file was not in the repository: save its text as my.yaml."])


def test_cells_are_named_by_what_computed_them(toy):
    toy.cell("local", "hom", 0, {2: [0.5, 0.5]}, versions={"fedgrid": "0.2"})
    (most, _), (few, environment) = origin.environments(toy.load())
    assert len(most) == 15 and few == ["Local, homogeneous, 2 clients, seed 0"]
    assert environment["versions"] == {"fedgrid": "0.2"}
    assert origin.differing(toy.load()) == [
        "The cells differ in fedgrid (0.1: 15 cells, 0.2: 1 cell), which may change last digits."
    ]
