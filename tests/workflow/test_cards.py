"""A workstation with two (fake) GPUs: every cell of a study has a card of its own, and all cards are used."""

import json
import os
import signal

import pytest
from held import Held

STUDY = """
name: cards
data: digits
heterogeneity: [{{partition: homogeneous, clients: 2}}]
partition_seed: 0
seeds: [0, 1, 2, 3, 4, 5]
model: {{name: mlp, hidden: 4, features: 4}}
training: {{rounds: 1}}
methods: {{slow: {{method: ../slow.py}}}}
compute: {{gpu_share: {share}}}
"""
CELLS = 6

pytestmark = pytest.mark.usefixtures("forker")


class Workstation(Held):
    """A copy of the repository on a machine that has two cards, where cells are held in their first round."""

    def __init__(self, path, share):
        super().__init__(path, STUDY.format(share=share), pause=0.3)
        (path / "locks").mkdir()

    @property
    def environment(self):
        return super().environment | {"CUDA_VISIBLE_DEVICES": "GPU-one,GPU-two", "TMPDIR": str(self.path / "locks")}

    def command(self, *arguments):
        return super().command("--cores", "6", "--until", "train", *arguments)

    def seen(self):
        return [json.loads(file.read_text()) for file in self.path.glob("seen-*.json")]


def assert_shared(seen, cells, share):
    """So many cells were on both cards, and never more on one of them than may share it."""
    assert len(seen) == cells and {card for card, *_ in seen} == {"GPU-one", "GPU-two"}
    for card, began, _ in seen:
        assert sum(other == card and start <= began < end for other, start, end in seen) <= share


@pytest.mark.full
def test_all_cells_on_two_cards_that_two_may_share(tmp_path):
    machine = Workstation(tmp_path, share=2)
    with machine.started() as run:
        assert sorted(machine.began(4).values()) == ["GPU-one"] * 2 + ["GPU-two"] * 2
        machine.release()
        output, _ = run.communicate()
    assert run.returncode == 0, output
    # which card is free at once, and that a cell that waits for one takes it, is tested with the locks themselves
    assert_shared(seen := machine.seen(), CELLS, share=2)
    assert max(sum(start <= began < end for _, start, end in seen) for _, began, _ in seen) == 4


@pytest.mark.full
def test_the_card_of_a_killed_cell_is_free_at_once(tmp_path):
    machine = Workstation(tmp_path, share=1)
    with machine.started() as run:
        first = machine.began(2)
        assert sorted(first.values()) == ["GPU-one", "GPU-two"]
        victim = next(iter(first))
        os.kill(victim, signal.SIGKILL)
        (third,) = machine.began(3).keys() - first.keys()  # while the cell on the other card is still held
        assert machine.began(3)[third] == first[victim] and not machine.seen()
        machine.release()
        output, _ = run.communicate()
    assert run.returncode == 1 and "was killed in round 0 of 1" in output
    assert_shared(seen := machine.seen(), CELLS - 1, share=1)
    assert max(sum(start <= began < end for _, start, end in seen) for _, began, _ in seen) == 2
    machine.snakemake()
    assert len(machine.cells()) == CELLS
