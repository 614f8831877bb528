"""Where results come from, and how they are made again elsewhere."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedgrid.analysis.prose import origin
from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.results import Results
from fedgrid.grid.plan.cell_metadata import Commit, Costs, Seconds
from fedgrid.grid.plan.manifest_model import Cell, RowDescription, StudyDescription

COMMIT = Commit("0123abcd", clean=True)
NAMES = {"key": "k", "label": "fedavg", "method": "fedavg", "data": "digits", "heterogeneity": "dir", "seed": 0}


def made(commit, name="toy", scale="full", file=None, commits=()):
    """Results of cells of some commits, one of them as `commit` has it."""
    names: dict = {**NAMES, "partition": Path("seed=0.parquet")}
    costs: dict = {"score": "received", "rounds": 1, "costs": Costs(Seconds(1.0)), "versions": {}, "hardware": {}}
    cells = [FinishedCell(**names, status="ok", **costs, commit=one) for one in (commit, *commits)]
    methods = {"fedavg": RowDescription("fedavg", "FedAvg", file=file)}
    study = StudyDescription(name, "Toy", scale=scale, methods=methods)
    return Results(study, [Cell(**names, status="missing"), *cells], pd.DataFrame())


def test_a_clean_commit_needs_nothing_else():
    results = made(COMMIT)
    assert origin.commit(results) == "Commit 0123abcd, with no uncommitted changes to the code."
    assert origin.steps(results, "config/study.yaml") == [
        "git checkout 0123abcd",
        "snakemake --cores all --configfile config/study.yaml",
    ]
    assert origin.reservations(results, "a.yaml") == []


def test_cells_of_several_commits():
    other = Commit("9999aaaa", clean=True)
    results = made(COMMIT, commits=[other, other])
    assert origin.commit(results).startswith(
        "Cells were computed at several commits: 9999aaaa, with no uncommitted changes"
    )
    assert origin.steps(results, "a.yaml")[0] == "git checkout 9999aaaa"


def test_uncommitted_changes_are_reported():
    results = made(replace(COMMIT, clean=False))
    assert "with uncommitted changes" in origin.commit(results)
    (sentence,) = origin.reservations(results, "a.yaml")
    assert sentence.startswith("The code had uncommitted changes, so this commit alone may give other numbers")


def test_a_study_that_is_not_the_commits_own_has_to_be_saved(working_folder):
    (working_folder / "a.yaml").write_text("name: toy\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "a.yaml"], ["commit", "-qm", "A study"]):
        subprocess.run([*git, *command], check=True)
    revision = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    results = made(Commit(revision, clean=True))
    assert origin.reservations(results, "a.yaml") == []
    (working_folder / "a.yaml").write_text("name: other\n")
    assert origin.reservations(results, "a.yaml") == [
        "The study is not the one of this commit: save its text as a.yaml."
    ]


def test_code_outside_a_clone_has_no_commit():
    results = made(None)
    assert origin.commit(results).startswith("The commit is unknown")
    assert origin.steps(results, "a.yaml") == ["snakemake --cores all --configfile a.yaml"]
    assert "version of fedgrid" in origin.reservations(results, "a.yaml")[0]


def test_an_experiment_at_a_scale_is_asked_for_alone():
    (last,) = origin.steps(made(None, "fedcosr-small/table2", "small"), "a.yaml")
    assert last == "snakemake --cores all --configfile a.yaml --config scale=small only=table2"


def test_a_file_of_ones_own_is_needed_too():
    results = made(COMMIT, file="mine/fedavg.py")
    assert origin.reservations(results, "a.yaml") == ["You also need mine/fedavg.py (FedAvg)."]


@pytest.mark.parametrize("inside", [True, False])
def test_the_studys_file_is_named_as_on_another_machine(working_folder, inside):
    file = working_folder / "config/my.yaml" if inside else working_folder.parent / "elsewhere/my.yaml"
    last = origin.steps(made(COMMIT), str(file))[-1]
    assert last.endswith("--configfile config/my.yaml" if inside else "--configfile my.yaml")
    assert str(Path.cwd()) not in last
    output = origin.reservations(made(COMMIT), str(file))
    assert output == ([] if inside else ["The study's file was not in the repository: save its text as my.yaml."])


def test_cells_are_named_by_what_computed_them(toy):
    toy.cell("local", "hom", 0, {2: [0.5, 0.5]}, versions={"fedgrid": "0.2"})
    (most, _), (few, environment) = origin.environments(toy.load())
    assert len(most) == 15 and few == ["Local, homogeneous, 2 clients, seed 0"]
    assert environment["versions"] == {"fedgrid": "0.2"}
    (sentence,) = origin.differing(toy.load())
    assert sentence.startswith("The cells differ in fedgrid (0.1: 15 cells, 0.2: 1 cell): identical bits require")
