"""Code that is edited while a run is going: the run ends with the code that it began with, the next one follows."""

import subprocess
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
