"""Seconds of what a method names: summed over rounds, kept in checkpoints, and nothing else changes."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import count

import pytest
import torch

from fedgrid.engine.federation import federation
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.checkpoint import load_checkpoint
from fedgrid.engine.state.saving import Saving, Terminated
from fedgrid.methods.pfedgraph import PFedGraph
from fedgrid.suite import simulations
from fedgrid.suite.simulations import assert_equal_states

GRAPH = {"similarity", "optimisation", "mixture"}


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on by a second whenever somebody looks: a phase takes one, with another one inside three."""
    clock = count()
    monkeypatch.setattr(federation, "now", lambda device: float(next(clock)))


class Ended(PFedGraph):
    """Is asked to end in its third round, when a part of it is done."""

    def mixing(self, shares, similar):
        if self.rounds.pop():
            raise Terminated
        return super().mixing(shares, similar)


@pytest.mark.parametrize(
    "name, settings, phases",
    [
        ("pfedgraph", {}, GRAPH),
        ("pfedgraph", {"pull": "directions"}, GRAPH),
        ("fedsac", {}, GRAPH | {"subspaces"}),
        ("fedsac", {"alpha": 0.0}, GRAPH),
        ("fedavg", {}, set()),
    ],
)
def test_phases_are_summed_over_rounds(ticking, name, settings, phases):
    progress = federate(simulations.method(name, **settings), simulations.ragged(rounds=3)).progress
    assert progress.phases == dict.fromkeys(phases, 3.0)


def test_phases_inside_phases_and_of_some_clients(ticking):
    fed = everyone(simulations.ragged(), 0)
    with fed.phase("outer"):
        with fed.subset(fed.ids < 2).phase("inner"):
            pass
        with fed.phase("inner"):
            pass
    assert fed.phases == {"inner": 2.0, "outer": 5.0}


def test_phases_are_part_of_the_round():
    progress = federate(simulations.method("fedsac"), simulations.ragged()).progress
    assert 0 < sum(progress.phases.values()) <= progress.seconds["train"] + progress.seconds["server"] + 1e-9


def test_numbers_do_not_depend_on_phases(monkeypatch):
    timed = federate(simulations.method("fedsac"), simulations.ragged()).progress
    monkeypatch.setattr(Federation, "phase", lambda self, name: nullcontext())
    plain = federate(simulations.method("fedsac"), simulations.ragged()).progress
    assert timed.record.rows == plain.record.rows and plain.phases == {}
    assert_equal_states(timed.state, plain.state)


def test_a_resumed_cell_keeps_adding(ticking, tmp_path, monkeypatch):
    """A round that is broken off leaves nothing of its phases."""
    saving = Saving(tmp_path / "checkpoint", "key", every=1e9)
    monkeypatch.setattr(Ended, "rounds", [True, False, False], raising=False)
    with pytest.raises(Terminated):
        federate(Ended(), simulations.ragged(rounds=4), saving)
    kept, _ = load_checkpoint(saving.file, "key", torch.device("cpu"))
    assert kept.phases == dict.fromkeys(GRAPH, 2.0)
    resumed = federate(simulations.method("pfedgraph"), simulations.ragged(rounds=4), saving).progress
    assert resumed.phases == dict.fromkeys(GRAPH, 4.0)


def test_a_gpu_is_done_with_its_work_at_both_ends_of_a_phase(monkeypatch):
    done, device = [], torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda of: done.append(of))
    fed = replace(everyone(simulations.ragged(), 0), simulation=replace(simulations.ragged(), device=device))
    with fed.phase("a"):
        assert done == [device]
    assert done == [device, device]
