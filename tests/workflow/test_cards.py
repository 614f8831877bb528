"""A workstation with two (fake) GPUs: every cell of a study has a card of its own, and all cards are used."""

import json
import os
import signal
import subprocess
import textwrap
import time

import pytest
from checkout import Checkout

STUDY = """
name: cards
data: digits
heterogeneity: [{{partition: homogeneous, clients: 2}}]
partition_seed: 0
seeds: [0, 1, 2, 3, 4, 5, 6, 7]
model: {{name: mlp, hidden: 4, features: 4}}
training: {{rounds: 1}}
methods: {{spy: {{method: spy.py}}}}
compute: {{gpu_share: {share}}}
"""
SPY = '''
import json, os, time
from pathlib import Path
from fedgrid.methods.fedavg import FedAvg as Plain

class Spy(Plain):
    """FedAvg that notes on which card it was, and when."""

    title = "Spy"

    def round(self, fed, s):
        began = time.monotonic()
        Path(f"began-{os.getpid()}").write_text(os.environ["CUDA_VISIBLE_DEVICES"])
        while Path("hold").exists() and time.monotonic() < began + 60:
            time.sleep(0.02)
        time.sleep(0.7)
        seen = [os.environ["CUDA_VISIBLE_DEVICES"], began, time.monotonic()]
        Path(f"seen-{os.getpid()}.json").write_text(json.dumps(seen))
        return super().round(fed, s)
'''


class Workstation(Checkout):
    """A copy of the repository on a machine that has two cards."""

    def __init__(self, path, share=1):
        super().__init__(path, STUDY.format(share=share))
        (path / "spy.py").write_text(textwrap.dedent(SPY))
        (path / "locks").mkdir()

    @property
    def environment(self):
        return super().environment | {"CUDA_VISIBLE_DEVICES": "GPU-one,GPU-two", "TMPDIR": str(self.path / "locks")}

    def seen(self):
        return sorted((json.loads(file.read_text()) for file in self.path.glob("seen-*.json")), key=lambda s: s[1])


@pytest.mark.parametrize("share", [1, 2])
def test_eight_cells_on_two_cards(tmp_path, share):
    machine = Workstation(tmp_path, share)
    machine.snakemake("--cores", "6", "--until", "train")
    seen = machine.seen()
    assert len(seen) == 8 and {card for card, *_ in seen} == {"GPU-one", "GPU-two"}
    for card, began, _ in seen:
        assert sum(other == card and start <= began < end for other, start, end in seen) <= share
    # which card is free at once, and that a cell that waits for one takes it, is tested with the locks themselves
    assert max(sum(start <= began < end for _, start, end in seen) for _, began, _ in seen) == 2 * share


def test_the_card_of_a_killed_cell_is_free_at_once(tmp_path):
    machine = Workstation(tmp_path)
    (tmp_path / "hold").touch()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(
        machine.command("--cores", "4", "--until", "train"), cwd=tmp_path, env=machine.environment, **pipes
    ) as run:
        first = waited(lambda: list(tmp_path.glob("began-*")), 2)
        victim = first[0]
        card, killed = victim.read_text(), time.monotonic()
        os.kill(int(victim.name.removeprefix("began-")), signal.SIGKILL)
        third = next(file for file in waited(lambda: list(tmp_path.glob("began-*")), 3) if file not in first)
        assert third.read_text() == card and time.monotonic() - killed < 10
        (tmp_path / "hold").unlink()
        said, _ = run.communicate()
    assert run.returncode == 1 and "was killed in round 0 of 1" in said
    machine.snakemake("--until", "train")
    assert len(machine.cells()) == 8


def waited(find, count):
    patience = time.monotonic() + 60
    while len(found := find()) < count:
        assert time.monotonic() < patience, found
        time.sleep(0.02)
    return found
