"""Two results of a cell are compared bit for bit: values, outcome and artifacts, and nothing else."""

import re

import pyarrow as pa
import pytest
from changed_models import write_changed
from changed_states import copy_state
from earlier import edited, train_all
from studies import prepared, study_of

from fedgrid.files import read_table, write_table
from fedgrid.jobs.comparison import OF_THE_OUTCOME, difference

KINDS = ("models", "state", "representations")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Two cells that differ in their seeds, with artifacts of every format."""
    folder = tmp_path_factory.mktemp("comparison")
    study = study_of(methods=["fedavg"], seeds=[0, 1], artifacts=list(KINDS), results=str(folder / "results"))
    train_all(prepared(study))
    return study.cells


def kept(cell, kind):
    return cell.kept_beside(cell.file)[kind]


def test_the_first_differing_value_is_named(cells, tmp_path):
    file, now = cells[0].file, tmp_path / "now.parquet"
    table, about = read_table(file)
    rows = table.to_pylist()
    edited(2, "loss_trained")(rows)
    write_table(now, pa.Table.from_pylist(rows, table.schema), about)
    sentence = difference(file, now, {})
    assert re.fullmatch(r"round 2, loss_trained of client 0: \S+ before, \S+ now", sentence)
    write_table(now, pa.Table.from_pylist(rows[1:], table.schema), about)
    assert re.fullmatch(r"round 0, \w+ of client -?\d+: \S+ before, no value now", difference(file, now, {}))


@pytest.mark.parametrize("name", OF_THE_OUTCOME)
def test_another_outcome_is_a_difference(cells, tmp_path, name):
    table, about = read_table(cells[0].file)
    write_table(tmp_path / "now.parquet", table, about | {name: "another"})
    sentence = difference(cells[0].file, tmp_path / "now.parquet", {})
    assert sentence == f"{name}: {about[name]!r} before, 'another' now"


@pytest.mark.parametrize("kind", KINDS)
def test_an_artifact_with_other_bits_is_named(cells, kind):
    one, other = cells
    same = {name: (kept(one, name), kept(one, name)) for name in KINDS}
    assert difference(one.file, one.file, same) == ""
    changed = same | {kind: (kept(one, kind), kept(other, kind))}
    assert difference(one.file, one.file, changed) == f"the artifact '{kind}'"


def test_keys_and_code_are_no_difference(cells, tmp_path):
    (cell, _), identity = cells, {"key": "0" * 16, "code": "0" * 16, "modules": {}}
    table, about = read_table(cell.file)
    now = tmp_path / "now.parquet"
    write_table(now, table, about | identity)
    copies = {kind: now.with_name(f"now.{kind}") for kind in ("models", "state")}
    write_changed(kept(cell, "models"), copies["models"], identity)
    copy_state(kept(cell, "state"), copies["state"], identity["key"])
    assert difference(cell.file, now, {kind: (kept(cell, kind), copy) for kind, copy in copies.items()}) == ""


def test_one_bit_of_an_artifact_in_a_table_counts(cells, tmp_path):
    file = cells[0].file

    def artifact(name, word="loss", value=1.0):
        words = pa.array(["unused", word]).dictionary_encode().take(pa.array([1]))
        write_table(tmp_path / name, pa.table({"word": words, "vector": [[value]]}), {"key": name})
        return tmp_path / name

    before = artifact("before.parquet")
    for now, sentence in (
        (artifact("same.parquet"), ""),
        (artifact("word.parquet", word="loss_"), "the artifact 'clusters'"),
        (artifact("value.parquet", value=1.0 + 2**-52), "the artifact 'clusters'"),
    ):
        assert difference(file, file, {"clusters": (before, now)}) == sentence
