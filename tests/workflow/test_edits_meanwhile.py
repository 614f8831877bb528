"""Code that is edited while a run is going: the run ends with the code that it began with, the next one follows."""

import subprocess
import time
from contextlib import contextmanager

import pytest
from forked import Forked
from warmed import warm_command

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
SLOW = '''
import time
from pathlib import Path
from fedgrid.methods.fedavg import FedAvg as Plain
from pace import PAUSE

class Slow(Plain):
    """FedAvg that waits as long as it is held."""

    title = "Slow"

    def round(self, fed, s):
        Path("began").touch()
        while Path("hold").exists():
            time.sleep(PAUSE)
        return super().round(fed, s)
'''
TABLE, REPORT = "results/edited/tables/accuracy.csv", "results/edited/report.html"

pytestmark = pytest.mark.usefixtures("forker")


class Held(Forked):
    """A checkout with a method that is held, and a helper of it."""

    def __init__(self, path, study=STUDY):
        super().__init__(path, study)
        (path / "slow.py").write_text(SLOW)
        (path / "pace.py").write_text("PAUSE = 0.02\n")
        (path / "hold").touch()

    def command(self, *arguments):
        return super().command(REPORT, *arguments)

    def wait(self, cells=0):
        """Until a cell of the method is at work, and so many others are done."""
        patience = time.monotonic() + 300
        while not ((self.path / "began").exists() and len(self.cells()) >= cells):
            assert time.monotonic() < patience
            time.sleep(0.02)

    def release(self):
        (self.path / "hold").unlink(missing_ok=True)

    @contextmanager
    def started(self, *arguments):
        """The same, released at the latest when a test has failed: nobody else would."""
        with super().started(*arguments) as run:
            try:
                yield run
            finally:
                self.release()

    def fedgrid(self, *arguments):
        """What a command says."""
        command = warm_command("fedgrid.cli.main", *arguments)
        return subprocess.run(command, cwd=self.path, env=self.environment, capture_output=True, text=True).stdout


@pytest.mark.full
def test_edits_meanwhile_reach_the_next_run(tmp_path):
    checkout = Held(tmp_path)
    with checkout.started("--cores", "1") as run:
        checkout.wait()
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
    checkout = Held(tmp_path, STUDY.replace("methods: {", "methods: {fedavg: , "))
    results = tmp_path / "results"
    with checkout.started("--cores", "4") as run:
        checkout.wait(cells=2)
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
