"""pFedHN: a step by hand, clients in turn and together, and what fails on the way."""

import numpy as np
import pytest
import torch
from nearness import DOUBLE, all_near, doubles
from nearness import near_printed as near
from trajectories import after_rounds, ending_after

from fedgrid.engine.federation.failures import lost_uploads, round_with_failures
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.saving import Saving
from fedgrid.methods.pfedhn import PFedHN
from fedgrid.suite import simulations
from fedgrid.suite.method import check_equal, check_scores
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree, tree_map

# Steps of the hypernetwork


class Linear(PFedHN):
    """h(v) = A·v."""

    def generate(self, phi, ids, like):
        return Tree(x=phi["embedding"][ids] @ phi["A"].T)


def stepped(**settings):
    plain = {"momentum": 0.0, "decay": 0.0, "server_lr": 0.1, "clip": 1e9}
    phi = Tree(embedding=doubles([2, 1], [5, 5]), A=doubles([1, 0], [0, 1], [1, -1]))
    ids, delta = torch.tensor([0]), Tree(x=doubles([1, -0.5, 0.5]))
    speed = tree_map(torch.zeros_like, phi)
    with torch.no_grad():
        Linear(**(plain | settings)).learn(phi, speed, ids, delta, torch.arange(1))
    return phi, speed


def test_a_step_of_a_linear_hypernetwork():
    phi, speed = stepped()
    near(phi["A"], [[0.8, -0.1], [0.1, 1.05], [0.9, -1.05]])
    near(phi["embedding"], [[1.85, 1.1], [5, 5]])
    near(phi["A"] @ phi["embedding"][0], [1.37, 1.34, 0.51])
    near(speed["A"], [[2, 1], [-1, -0.5], [1, 0.5]])
    near(speed["embedding"], [[1.5, -1], [0, 0]])
    norm = torch.cat([t.flatten() for t in speed.values()]).norm()
    near(norm, 3.278719)
    clipped = stepped(clip=1.0)[1]
    all_near(clipped, tree_map(lambda t: t * 0.304997, speed), 1e-6)


# Rounds


ALIKE = [{}, {"server_step": "mean"}, {"clients_at_once": None}, {"clients_at_once": None, "server_step": "mean"}]


def test_one_client_a_round_is_the_same_in_turn_and_together():
    for simulation in (simulations.ragged(clients=1), simulations.ragged(clients=4, participation=0.3)):
        first, *others = (final("pfedhn", simulation, local_steps=5, **given).server.phi for given in ALIKE)
        for other in others:
            all_near(other, first, 1e-6)


def test_several_clients_a_round_are_not():
    """Except that a step for each and one with the mean are the same where clients are visited in turn."""
    in_turn, mean, *together = (
        final("pfedhn", simulations.ragged(), local_steps=5, **given).server.phi["embedding"] for given in ALIKE
    )
    assert torch.equal(in_turn, mean)
    assert not any(torch.equal(in_turn, other) for other in together) and not torch.equal(*together)


def test_clients_in_turn_learn_in_fewer_rounds():
    """Six clients of two labels or so, 36 visits: about 39 % of their test images in turn, 17 % together."""
    pieces = np.array_split(simulations.by_label(), 6)
    lists = [[piece[chosen].tolist() for piece in pieces] for chosen in (slice(0, 40), slice(-40, None))]
    simulation = simulations.simulation(*lists, rounds=6, eval_every=6, batch_size=8, lr=0.1)
    in_turn, together = (
        simulations.run("pfedhn", simulation, local_steps=20, clients_at_once=at_once).progress.record.rows
        for at_once in (1, None)
    )
    one, other = (
        np.mean([values for done, metric, _, values in rows if (done, metric) == (6, "accuracy_received")])
        for rows in (in_turn, together)
    )
    assert one > other + 0.1


def test_statistics_of_batch_norm_are_averaged():
    simulation = simulations.ragged(3, rounds=1, norm="batch", batch_size=8, **DOUBLE)
    state, p = after_rounds("pfedhn", simulation, 1, local_steps=3), everyone(simulation, 0).weights
    assert simulation.model.statistics
    for name in simulation.model.statistics:
        near(state.server.statistics[name], p @ state.trained[name], 1e-12)


# Embeddings


@pytest.mark.parametrize(("clients", "width"), [(10, 3), (20, 6), (50, 13), (100, 26)])
def test_width_of_an_embedding(clients, width):
    simulation = simulations.simulation([simulations.draw([i % 10]) for i in range(clients)])
    phi = simulations.method("pfedhn", hidden=2).setup(everyone(simulation, 0)).server.phi
    assert phi["embedding"].shape == (clients, width)


def test_pfedhn_does_not_change_without_participants():
    simulation = simulations.ragged()
    method = simulations.method("pfedhn", local_steps=0, decay=0.0)
    before = method.setup(everyone(simulation, 0)).server.phi
    all_near(final("pfedhn", simulation, local_steps=0, decay=0.0).server.phi, before, 0)
    moved = final("pfedhn", simulation, local_steps=5, decay=0.0).server.phi
    assert all((moved[key] - before[key]).abs().max() > 0 for key in before)


# What fails on the way


def unlucky(number_lost, **settings):
    """A simulation and its first round in which so many of four uploads are lost."""
    for seed in range(99):
        simulation = simulations.ragged(4, dropout=0.5, seed=seed, batch_size=8, **DOUBLE)
        if lost_uploads(everyone(simulation, 0)).sum() == number_lost:
            return simulation
    raise AssertionError


@pytest.mark.parametrize("own_head", [False, True])
def test_nobody_learns_from_lost_uploads(own_head):
    """Those who arrive are visited as in a round of their own; the others train models of Φ as it was before it."""
    simulation, method = unlucky(2), PFedHN(local_steps=5, server_lr=0.5, own_head=own_head)
    s = method.setup(everyone(simulation, 0))
    fed = everyone(simulation, 0, s)
    lost = torch.from_numpy(np.flatnonzero(lost_uploads(fed)))
    arrived = torch.from_numpy(np.flatnonzero(~lost_uploads(fed)))
    with torch.no_grad():
        state = round_with_failures(method, fed)
        theirs = method.round(fed.subset(arrived), s.gather(arrived))
        alone = fed.train(method.received(fed, s), method.loss, steps=5).theta
    all_near(state.server.phi, theirs.server.phi, 0)
    all_near(state.trained.rows(arrived), theirs.trained, 0)
    all_near(state.trained.rows(lost), alone.rows(lost), 1e-12)
    moved = (state.trained["head.weight"] - alone["head.weight"]).flatten(1).abs().amax(dim=1) > 1e-6
    assert moved.sum() == 1  # of two that arrive the second, whose model comes from another Φ
    if own_head:
        all_near(state.clients.head.rows(lost), alone.part("head").rows(lost), 1e-12)


def test_stragglers_stop_early_in_turn_too():
    simulation = simulations.ragged(3, stragglers=0.5, straggler_work=0.25, batch_size=4, rounds=3, eval_every=3)
    rows = simulations.run("pfedhn", simulation, local_steps=8).progress.record.rows
    assert {0.25, 1.0} == {value for _, metric, _, values in rows if metric == "work" for value in values}


TOGETHER = [{"clients_at_once": None}, {"clients_at_once": 2, "server_step": "mean", "own_head": True}]
OTHERS = [pytest.param(edge, marks=pytest.mark.full) for edge in simulations.OTHERS]


@pytest.mark.parametrize("edge", [*simulations.HARDEST, *OTHERS])
@pytest.mark.parametrize("given", TOGETHER, ids=str)
def test_edges_of_clients_together(given, edge):
    simulation = simulations.edge(edge)
    outcome = simulations.run("pfedhn", simulation, local_steps=5, **given)
    assert outcome.status == "ok"
    check_scores(simulation, outcome.progress)


@pytest.mark.parametrize("given", TOGETHER, ids=str)
def test_clients_together_resume_from_a_checkpoint(given, tmp_path):
    method, saving = PFedHN(local_steps=5, **given), Saving(tmp_path / "cell.checkpoint", "key", every=0.0)
    simulation = simulations.ragged(4, participation=0.8, batch_size=8)
    with pytest.raises(simulations.Killed):
        federate(method, simulation, saving, ending_after(2))
    check_equal(federate(method, simulation, saving).progress, federate(method, simulation).progress, "they agree")
