"""What methods do where nothing is set: defaults under which they are what their papers describe."""

import numpy as np
import pytest
import torch

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.rounds import federate
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final


def test_fedamps_distances_leave_statistics_out():
    simulation = simulations.ragged(norm="batch", batch_size=8)
    state = final("fedamp", simulation)
    method, fed = simulations.method("fedamp"), everyone(simulation, 3, state)
    before = method.attention(fed, state)
    for name in simulation.model.statistics:
        state.server.models[name] = state.server.models[name] + 100 * torch.arange(5.0).unsqueeze(1)
    assert torch.equal(method.attention(fed, state), before)


def test_sharp_cosine_weights_do_not_vanish():
    """At s = 10⁴ all weight but one's own is on the most similar client."""
    simulation = simulations.ragged(dtype="float64")
    settings = {"heuristic": True, "sharpness": 1e4}
    method, state = simulations.method("fedamp", **settings), final("fedamp", simulation, **settings)
    xi = method.attention(everyone(simulation, 3, state), state).numpy()
    np.testing.assert_allclose(xi.sum(axis=1), 1)
    np.testing.assert_allclose(xi.diagonal(), 0.3)
    np.testing.assert_allclose(np.sort(xi, axis=1)[:, -1], 0.7, atol=1e-3)


@pytest.mark.parametrize(("rounds", "first"), [(10, 4), (20, 8), (49, 19), (50, 20), (1000, 20)])
def test_cfl_can_split_in_a_short_study(rounds, first):
    fed = everyone(simulations.ragged(rounds=rounds), 0)
    assert simulations.method("cfl").first(fed) == first
    assert simulations.method("cfl", bounds="pfedgraph").first(fed) == 0
    assert simulations.method("cfl", t0=7).first(fed) == 7


def test_cfl_splits_within_ten_rounds():
    """Two kinds of clients that have nothing in common, relative bounds, nothing else set."""
    kinds = [[0, 1] * 6, [0, 1] * 6, [8, 9] * 6, [8, 9] * 6]
    clients = [simulations.draw(labels, start=100 * i) for i, labels in enumerate(kinds)]
    simulation = simulations.simulation(clients, rounds=10, lr=0.2, local_epochs=3)
    cluster = final("cfl", simulation, bounds="relative", eps1=1.0, eps2=0.1).server.cluster.tolist()
    assert cluster[0] == cluster[1] != cluster[2] == cluster[3]


@pytest.mark.parametrize(("version", "gradients"), [("fo", 2), ("hf", 4)])
def test_gradients_of_a_meta_step(version, gradients, monkeypatch):
    taken, usual = [], torch.func.grad_and_value
    monkeypatch.setattr(torch.func, "grad_and_value", lambda f: taken.append(f) or usual(f))
    simulation = simulations.simulation([simulations.draw(range(8))], rounds=1, batch_size=4, eval_every=1)
    monkeypatch.setattr("fedgrid.engine.rounds.evaluate", lambda *a: None)
    federate(simulations.method("perfedavg", version=version), simulation)
    assert len(taken) == 2 * gradients  # two batches an epoch, as many meta-steps as FedAvg has steps
