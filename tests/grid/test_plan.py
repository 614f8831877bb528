"""The plan of a run: a study written down once, and read back as it was."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from studies import study_of

from fedgrid.errors import Damaged, UserError
from fedgrid.grid.plan import manifest, plan_file
from fedgrid.grid.plan.keys import key_of_cell
from fedgrid.grid.plan.manifest_model import read_manifest
from fedgrid.grid.plan.model import Cell, PlannedPartition
from fedgrid.grid.study.codec import keyed_fields
from fedgrid.grid.study.model import MethodRow

EVERYTHING = """
name: everything
title: Everything at once
data: [digits, {name: digits, label: frozen, features: {backbone: random}}, {name: synthetic, size: 8}]
heterogeneity:
  - {partition: dirichlet, beta: 0.5, clients: 4, validation: 0.2}
  - {partition: pathological, classes: 3, clients: 4, test: own}
seeds: [3, 1]
partition_seed: 7
artifacts: [clusters]
model: {name: mlp, hidden: 16, projection: 8}
training: {rounds: 2, clip: 1}
report: {score: trained, at: last5}
compute: {threads: 2, client_chunk: 3, checkpoint_every: 5}
methods:
  fedavg: {training: {lr: 0.5}}
  strong: {method: fedprox, mu: 1}
  outside: {method: outside.py}
"""


def described(study):
    (experiment,) = study.experiments
    return manifest.content(study, experiment)


@pytest.fixture
def study(working_folder):
    Path("outside.py").write_text(
        '"""O."""\nfrom fedgrid.methods.fedavg import FedAvg\n\n\nclass O(FedAvg):\n    pass\n'
    )
    return study_of(EVERYTHING)


def test_a_plan_is_read_as_it_was_written(study):
    packs = {"p": (study.cells[0].key, study.cells[1].key)}
    before = plan_file.Plan(study, "config/everything.yaml", packs)
    after = plan_file.read(before.write())
    assert after.content() == before.content() and after.file == before.file
    assert after.study == study and (after.configfile, after.packs) == ("config/everything.yaml", packs)
    for mine, theirs in zip(after.study.cells, study.cells, strict=True):
        assert mine.spec == theirs.spec and mine.files == theirs.files and mine.needs == theirs.needs
    assert described(after.study) == described(study)


def test_a_manifest_is_read_as_it_was_written(study):
    (experiment,) = study.experiments
    file = manifest.file(study, experiment)
    manifest.write(study, file)
    assert read_manifest(file) == described(study)


def test_reading_a_plan_resolves_nothing(study, monkeypatch):
    file = plan_file.Plan(study).write()

    def refused(*arguments):
        raise AssertionError("a plan needs no component")

    for name in (
        "loading.load",
        "loading.locate",
        "grid.study.catalog.description",
        "grid.study.fingerprint.fingerprint",
    ):
        monkeypatch.setattr(f"fedgrid.{name}", refused)
    assert len(plan_file.read(file).study.cells) == len(study.cells) == 36


def test_what_cells_share_is_in_a_plan_once(study):
    content = plan_file.Plan(study).content()
    number = Counter(tuple(value) for value in content["shared"])
    kinds = Cell, MethodRow, PlannedPartition
    assert [number[tuple(keyed_fields(kind))] for kind in kinds] == [36, len(study.rows), 6]
    assert all(len(json.dumps(value)) < 300 for value in content["shared"] if "train_seed" in value)


def test_the_work_of_a_method_reaches_the_tables_and_no_key(study):
    listed = described(study).study.methods
    assert {label: row.work for label, row in listed.items()} == {n: row.work for n, row in study.rows.items()}
    assert all(row.work for row in study.rows.values())
    cell = study.cells[0]
    dearer = replace(cell.row, work="9E")
    assert key_of_cell(dearer, cell.partition, cell.model, cell.train_seed, cell.code) == cell.key


def test_another_plan_has_another_file(study):
    other = study_of(EVERYTHING.replace("mu: 1", "mu: 2"))
    assert plan_file.Plan(study).file != plan_file.Plan(other).file
    assert plan_file.Plan(study).file == plan_file.Plan(study_of(EVERYTHING)).file


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"text": 1}'])
def test_a_file_that_is_no_plan_is_named(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(Damaged, match=r"plan\.json: damaged"):
        plan_file.read(tmp_path / "plan.json")
    with pytest.raises(UserError, match="does not exist"):
        plan_file.read(tmp_path / "none.json")
