"""Both executors, any chunk and any order of clients give the same numbers."""

from pathlib import Path

import pytest
import torch
import worlds

from fedgrid.engine.loop import Loop
from fedgrid.engine.rounds import federate
from fedgrid.engine.stacked import Stacked
from fedgrid.loading import load, names
from fedgrid.tree import leaves

CONTRACT = sorted(map(str, (Path(__file__).parent / "contract").glob("*.py")))
METHODS = [*names("methods"), *CONTRACT]


def run(name, executor, **training):
    method = load("methods", name)()
    world = worlds.ragged(executor=executor, **training)
    outcome = federate(method, world)
    assert outcome.status == "ok"
    return method, world, outcome.progress


def agree(first, second, tolerance):
    """Largest difference of two states, relative to the largest number of each tensor."""
    for ours, theirs in ((first.state.server, second.state.server), (first.state.clients, second.state.clients)):
        for a, b in zip(leaves(ours), leaves(theirs), strict=True):
            if a.is_floating_point():
                far = (a - b).nan_to_num().abs().max() if a.numel() else 0
                assert far <= tolerance * max(b.nan_to_num().abs().max(), 1e-3) if a.numel() else True
                assert torch.equal(a.isnan(), b.isnan())
            else:
                assert torch.equal(a, b)


@pytest.mark.parametrize("name", METHODS, ids=lambda n: Path(n).stem)
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_float64(name, participation):
    _, _, loop = run(name, Loop(), dtype="float64", participation=participation)
    for chunk in (None, 1, 2, 5):
        _, _, stacked = run(name, Stacked(chunk), dtype="float64", participation=participation)
        agree(loop, stacked, 1e-9)
