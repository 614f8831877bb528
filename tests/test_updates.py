"""The benchmark of adoption: its edits fit the code, it tells right from wrong, and a small one runs."""

from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pytest

from benchmarks import updates
from benchmarks.edits import EDITS, NotOnce, same
from benchmarks.processes import ROOT
from benchmarks.updates import Measured, numbers
from fedgrid.files import write_table

HARMLESS = Measured(
    "e", "no bit", "…", 5, 0, adopted=3, trained=2, refused=0, carried_wrongly=0, seconds=1, refusals=""
)
REFUSAL = "fedavg, digits, dirichlet, seed 0: round 1, loss_trained of client 0: 1.0 before, 2.0 now"
HARMFUL = replace(HARMLESS, changes="numbers", changed=2, adopted=0, refused=5, refusals=REFUSAL)
SMALL = """
name: small
data: digits
heterogeneity: [{partition: dirichlet, beta: 0.3, clients: 3, fraction: 0.1}]
seeds: [0, 1, 2]
model: {name: mlp, hidden: 8, features: 8}
training: {rounds: 2}
methods: {plain: {method: fedavg}, momentum: {method: fedavg, training: {momentum: 0.9}}}
artifacts: [representations]
"""


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_every_edit_changes_the_code(edit, tmp_path):
    """Each of its texts is in its file exactly once, and what comes out is Python."""
    package = ROOT / "src" / "fedgrid"
    for name in {name for name, *_ in edit.replaced}:
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((package / name).read_bytes())
    edit.apply(tmp_path)
    for file in tmp_path.rglob("*.py"):
        compile(file.read_text(encoding="utf-8"), str(file), "exec")
    assert all((tmp_path / name).read_bytes() != (package / name).read_bytes() for name, *_ in edit.replaced)


@pytest.mark.parametrize("text", ["one", "three"])
def test_an_edit_whose_text_is_not_there_once_fails(tmp_path, text):
    (tmp_path / "tree.py").write_text("one one two")
    with pytest.raises(NotOnce, match=r"tree\.py"):
        same("e", "…", ("tree.py", text, "four")).apply(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [{"changed": 1}, {"refused": 1}, {"adopted": 2}, {"new_keys": 0, "adopted": 0, "trained": 0}],
    ids=str,
)
def test_a_harmless_edit_is_adopted_whole(wrong):
    assert HARMLESS.holds and not replace(HARMLESS, **wrong).holds


@pytest.mark.parametrize(
    "wrong",
    [{"changed": 0}, {"refused": 0}, {"carried_wrongly": 1}, {"refusals": ""}, {"refusals": f"{REFUSAL}\nno reason"}],
    ids=str,
)
def test_an_edit_of_numbers_is_refused_and_named(wrong):
    assert HARMFUL.holds and not replace(HARMFUL, **wrong).holds


def test_every_bit_of_a_result_counts(tmp_path):
    """In the values, the names, the outcome and the artifacts; and nothing else does."""
    about = dict.fromkeys(updates.OUTCOME, "same") | {"key": "a"}

    def written(value=1.0, metric="loss", vector=0.5, **metadata):
        names = pa.array([metric]).dictionary_encode()
        write_table(tmp_path / "c.parquet", pa.table({"metric": names, "value": [value]}), about | metadata)
        write_table(tmp_path / "c.kept.parquet", pa.table({"vector": [[vector]]}), {})
        return numbers(tmp_path, ["c.parquet", "c.kept.parquet"])

    before = written()
    assert written(key="b") == before
    others = [written(value=1.0 + 2**-52), written(metric="loss_"), written(vector=0.25), written(status="diverged")]
    assert before not in others


@pytest.mark.full
def test_a_small_study(tmp_path):
    study = tmp_path / "small.yaml"
    study.write_text(SMALL)
    options = ["--study", str(study), "--out", str(tmp_path / "out"), "--cores", "1"]
    assert updates.main([*options, "--only", "docstring", "momentum"]) == 0
    harmless, harmful = pd.read_csv(tmp_path / "out" / "updates.csv").to_dict("records")
    assert (harmless["new_keys"], harmless["changed"], harmless["refused"]) == (6, 0, 0)
    assert (harmful["new_keys"], harmful["changed"], harmful["adopted"]) == (6, 3, 0)
    text = (tmp_path / "out" / "updates.md").read_text(encoding="utf-8")
    assert "| docstring |" in text and "* momentum: momentum, digits, " in text
