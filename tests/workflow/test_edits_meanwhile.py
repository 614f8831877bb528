"""Code that is edited while a run is going: the run ends with the code that it began with, the next one follows."""

import time

import pytest
from held import Held
from processes import eventually

STUDY = """
name: edited
data: digits
heterogeneity: [{partition: homogeneous, clients: 2}]
partition_seed: 0
seeds: [0, 1]
model: {name: mlp, hidden: 4, features: 4}
training: {rounds: 2}
methods: {slow: {method: ../slow.py}}
"""
TABLE, REPORT = "results/edited/tables/accuracy.csv", "results/edited/report.html"

pytestmark = pytest.mark.usefixtures("forker")


class Reported(Held):
    """A checkout that makes the study's report."""

    def command(self, *arguments):
        return super().command(REPORT, *arguments)


@pytest.mark.full
def test_edits_meanwhile_reach_the_next_run(tmp_path):
    checkout = Reported(tmp_path, STUDY)
    with checkout.started("--cores", "1") as run:
        checkout.began()
        # a helper of the method, the engine, and something that is no Python at all
        (tmp_path / "pace.py").write_text("PAUSE = 0.0\n")
        checkout.edit("src/fedgrid/engine/rounds.py", "Population.of(state", "unheard_of(state")
        checkout.edit("src/fedgrid/methods/fedavg.py", "class FedAvg", "clas FedAvg")
        checkout.release()
        output, _ = run.communicate()
    assert run.returncode == 0, output
    assert "fedgrid: edited during this run: fedgrid/engine/rounds.py, fedgrid/methods/fedavg.py" in output
    assert len(checkout.cells()) == 2
    checkout.edit("src/fedgrid/engine/rounds.py", "unheard_of(state", "Population.of(state")
    checkout.edit("src/fedgrid/methods/fedavg.py", "clas FedAvg", "class FedAvg")
    assert checkout.planned()["slow"] == 2  # what is left of the edits: the helper's pause
    (tmp_path / "pace.py").write_text("PAUSE = 0.02\n")
    assert checkout.planned() == {}


def bytes_of(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and "logs" not in file.parts}


@pytest.mark.full
def test_a_look_at_an_edited_study_leaves_a_run_alone(tmp_path):
    checkout = Reported(tmp_path, STUDY.replace("methods: {", "methods: {fedavg: , "))
    results = tmp_path / "results"
    with checkout.started("--cores", "4") as run:
        checkout.began()
        assert eventually(lambda: len(checkout.cells()) >= 2, 300)
        checkout.edit("config/study.yaml", "fedavg: , ", "local: , ")
        checkout.edit("config/study.yaml", "seeds: [0, 1]", "seeds: [0]\nreport: {score: trained}")
        quiet = settled(results)
        assert checkout.planned()["local"] == 1  # what the edited study lacks
        status = checkout.fedgrid("status")
        assert "local" in status and "fedavg" not in status
        assert bytes_of(results) == quiet
        assert "cells/fedavg" not in checkout.fedgrid("prune", "--delete")
        assert len(checkout.cells()) >= 2
        checkout.release()
        output, _ = run.communicate()
    assert run.returncode == 0, output
    table = (tmp_path / TABLE).read_text()
    assert "fedavg" in table and "local" not in table and table.count("slow") == 1
    assert "cells/" not in checkout.fedgrid("prune")
    assert checkout.planned()["local"] == 1


def settled(folder):
    """The folder's bytes once two looks find the same, further apart than the notes of cells at work."""
    before = None
    while (after := bytes_of(folder)) != before:
        before = after
        time.sleep(2)
    return after
