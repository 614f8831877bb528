"""Code that is edited while a run is going: the run ends with the code that it began with, the next one follows."""

import subprocess
import sys
import time

from checkout import Checkout

STUDY = """
name: edited
data: digits
heterogeneity: [{partition: homogeneous, clients: 2}]
partition_seed: 0
seeds: [0, 1, 2, 3]
model: {name: mlp, hidden: 4, features: 4}
training: {rounds: 2}
methods: {slow: {method: slow.py}}
"""
SLOW = '''
import time
from pathlib import Path
from fedgrid.methods.fedavg import FedAvg as Plain
from pace import PAUSE

class Slow(Plain):
    """FedAvg that takes its time."""

    title = "Slow"

    def round(self, fed, s):
        Path("began").touch()
        time.sleep(PAUSE)
        return super().round(fed, s)
'''


def test_edits_meanwhile_reach_the_next_run(tmp_path):
    checkout = Checkout(tmp_path, STUDY)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "pace.py").write_text("PAUSE = 1.0\n")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = checkout.command("--cores", "1")
    with subprocess.Popen(command, cwd=tmp_path, env=checkout.environment, **pipes) as run:
        patience = time.monotonic() + 60
        while not (tmp_path / "began").exists() and time.monotonic() < patience:
            time.sleep(0.05)
        # a helper of the method, the engine, and something that is no Python at all
        (tmp_path / "pace.py").write_text("PAUSE = 0.0\n")
        checkout.edit("src/fedgrid/engine/rounds.py", "Progress(method.setup", "unheard_of(method.setup")
        checkout.edit("src/fedgrid/methods/fedavg.py", "class FedAvg", "clas FedAvg")
        said, _ = run.communicate()
    assert run.returncode == 0, said
    assert "fedgrid: edited while this run was going: fedgrid/engine/rounds.py, fedgrid/methods/fedavg.py" in said
    assert len(checkout.cells()) == 4
    checkout.edit("src/fedgrid/engine/rounds.py", "unheard_of(method.setup", "Progress(method.setup")
    checkout.edit("src/fedgrid/methods/fedavg.py", "clas FedAvg", "class FedAvg")
    assert checkout.planned()["slow"] == 4  # what is left of the edits: the helper's pause
    (tmp_path / "pace.py").write_text("PAUSE = 1.0\n")
    assert checkout.planned() == {}


def bytes_of(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and "logs" not in file.parts}


def test_a_look_at_an_edited_study_leaves_a_run_alone(tmp_path):
    checkout = Checkout(tmp_path, STUDY.replace("methods: {", "methods: {fedavg: , "))
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "pace.py").write_text("PAUSE = 1.0\n")
    (tmp_path / "hold").touch()
    checkout.edit("slow.py", "time.sleep(PAUSE)", 'while Path("hold").exists():\n            time.sleep(0.05)')
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    results, patience = tmp_path / "results", time.monotonic() + 120
    with subprocess.Popen(checkout.command("--cores", "8"), cwd=tmp_path, env=checkout.environment, **pipes) as run:
        while not ((tmp_path / "began").exists() and len(checkout.cells()) >= 4) and time.monotonic() < patience:
            time.sleep(0.05)
        checkout.edit("config/study.yaml", "fedavg: , ", "local: , ")
        checkout.edit("config/study.yaml", "seeds: [0, 1, 2, 3]", "seeds: [0, 1]\nreport: {score: trained}")
        quiet = settled(results)
        assert checkout.planned()["local"] == 2  # what the edited study lacks
        assert "local" in fedgrid(checkout, "status") and "fedavg" not in fedgrid(checkout, "status")
        assert bytes_of(results) == quiet
        assert "cells/fedavg" not in fedgrid(checkout, "prune", "--delete")
        assert len(checkout.cells()) >= 4
        (tmp_path / "hold").unlink()
        said, _ = run.communicate()
    assert run.returncode == 0, said
    table = (results / "edited/tables/accuracy.csv").read_text()
    assert "fedavg" in table and "local" not in table and table.count("slow") == 1
    assert "cells/" not in fedgrid(checkout, "prune")
    assert checkout.planned()["local"] == 2


def settled(folder):
    """The folder's bytes once two looks find the same: cells at work note that they are, for a moment."""
    before = bytes_of(folder)
    while (after := bytes_of(folder)) != before:
        before = after
    return after


def fedgrid(checkout, *arguments):
    command = [sys.executable, "-m", "fedgrid.cli.main", *arguments]
    return subprocess.run(command, cwd=checkout.path, env=checkout.environment, capture_output=True, text=True).stdout
