"""Limits of single methods that are no other method."""

import pytest
import torch
from nearness import all_near

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.task import LocalTask
from fedgrid.engine.rounds import federate
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final, used


def test_fedrep_freezes_one_part_at_a_time():
    simulation = simulations.ragged(participation=0.5)
    start = simulation.model.initial(0)
    no_head = final("fedrep", simulation, head_epochs=0).clients.theta
    assert torch.equal(no_head["head.weight"], start["head.weight"].expand_as(no_head["head.weight"]))
    no_body = final("fedrep", simulation, body_epochs=0)
    all_near(no_body.server.theta, {key: start[key] for key in no_body.server.theta}, 1e-6)
    assert (no_body.clients.theta["head.weight"] != start["head.weight"]).any()
    nothing = final("fedrep", simulations.ragged(clients=1), head_epochs=0, body_epochs=0).server.theta
    all_near(nothing, {key: start[key] for key in nothing}, 0)


def test_scaffold_counts_the_clients_that_have_images():
    """With others in N, c would stay behind the mean and brake every step."""
    index = [simulations.draw(range(5)), simulations.draw([6, 7, 8]), [], []]
    state = final("scaffold", simulations.simulation(index, [simulations.draw([0])] * 4))
    all_near(state.server.variate, {key: t[:2].mean(dim=0) for key, t in state.clients.variate.items()}, 1e-6)


@pytest.mark.parametrize(("name", "mean", "own"), [("scaffold", "variate", "variate"), ("feddyn", "drift", "drift")])
def test_what_a_server_keeps_is_the_mean_of_what_clients_keep_where_uploads_are_lost(name, mean, own):
    state = final(name, simulations.ragged(5, rounds=6, dropout=0.5, dtype="float64"))
    all_near(state.server[mean], state.clients[own].map(lambda t: t.mean(dim=0)), 1e-12)
    assert all(t.any() for t in state.clients[own].values())


def test_scaffold_with_one_step_a_round_is_fedavg_for_ever():
    """Equal clients: the corrections cancel in the mean."""
    clients = [simulations.draw(range(i, i + 5), start=40 * i) for i in range(3)]
    one_step = {"batch_size": 99, "rounds": 5, "dtype": "float64"}
    ours = final("scaffold", simulations.simulation(clients, **one_step)).server.theta
    all_near(ours, final("fedavg", simulations.simulation(clients, **one_step)).server.theta, 1e-12)


def test_pfedme_that_does_not_mix_stays():
    simulation = simulations.ragged()
    all_near(final("pfedme", simulation, beta=0.0).server.theta, simulation.model.initial(0), 0)
    all_near(final("pfedme", simulation, lam=0.0).server.theta, simulation.model.initial(0), 1e-6)


def test_perfedavg_limits():
    simulation = simulations.ragged()
    all_near(final("perfedavg", simulation, beta=0.0).server.theta, simulation.model.initial(0), 1e-6)
    own = used("perfedavg", simulation, alpha=0.0)
    all_near(own, everyone(simulation, 3).replicate(final("perfedavg", simulation, alpha=0.0).server.theta), 0)


def test_perfedavg_trains_a_client_with_a_single_batch():
    simulation = simulations.simulation([simulations.draw(range(3))], rounds=1)
    for version in ("fo", "hf"):
        moved = final("perfedavg", simulation, version=version).server.theta
        assert not torch.equal(moved["head.weight"], simulation.model.initial(0)["head.weight"])


def test_hessian_free_is_close_to_the_exact_meta_gradient():
    """One client, three batches: θ − β·(I − α·H)·g, with the Hessian product by double differentiation."""
    index = simulations.draw([i % 10 for i in range(12)])
    simulation = simulations.simulation([index], rounds=1, batch_size=4, dtype="float64")
    alpha, beta = 0.05, 0.1
    first, second, third = (simulation.data.batch(b) for b in batches(simulation, 0))
    theta = {name: t.double() for name, t in simulation.model.initial(0).items()}

    def loss(batch):
        return lambda t: torch.nn.functional.cross_entropy(simulation.model(t, batch.x), batch.y)

    slope = torch.func.grad(loss(first))(theta)
    d = torch.func.grad(loss(second))({name: t - alpha * slope[name] for name, t in theta.items()})
    _, product = torch.func.jvp(torch.func.grad(loss(third)), (theta,), (d,))
    exact = {name: t - beta * (d[name] - alpha * product[name]) for name, t in theta.items()}
    ours = final("perfedavg", simulation, version="hf", alpha=alpha, beta=beta, passes=1, delta=1e-4).server.theta
    all_near(ours, exact, 1e-7)
    assert max((exact[name] - theta[name] + beta * d[name]).abs().max() for name in theta) > 1e-5


def test_fedamp_draws_similar_clients_together():
    """Two clients with the same images and one with others: attention finds the twin."""
    twin, other = simulations.draw([0, 1, 2, 0, 1, 2]), simulations.draw([7, 8, 9, 7, 8, 9])
    simulation = simulations.simulation([twin, other, twin], rounds=8)
    method = simulations.method("fedamp", alpha=1.0, sigma=1.0, lam=0.05)
    state = federate(method, simulation).progress.state
    weights = method.attention(everyone(simulation, 8, state), state)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(3).double())
    assert (weights >= 0).all() and weights[0, 2] > 2 * weights[0, 1]


def test_fedamp_stays_alone_where_attention_is_narrow():
    method, simulation = simulations.method("fedamp", sigma=1e-6), simulations.ragged()
    weights = method.attention(everyone(simulation, 3), federate(method, simulation).progress.state)
    torch.testing.assert_close(weights, torch.eye(5).double())


def test_fedpac_never_cuts_all_weights():
    twins = simulations.simulation([simulations.draw(range(6))] * 8)
    heads = final("fedpac", twins, cutoff=0.2).clients.theta["head.weight"]
    assert heads.isfinite().all()


def test_a_combination_that_is_no_number_ends_the_cell_as_diverged(monkeypatch):
    spoiled = torch.full((3, 3), torch.nan, dtype=torch.float64)
    monkeypatch.setattr("fedgrid.methods.fedpac.minimum_on_simplex", lambda *a: spoiled)
    outcome = federate(simulations.method("fedpac"), simulations.ragged(clients=3, rounds=1))
    assert outcome.status == "diverged"
    assert (
        outcome.reason == "the test loss of the received model of client 0, in the evaluation, is not finite in round 1"
    )


def batches(simulation, client):
    task = LocalTask(
        simulation.data, simulation.data.train, simulation.model, 4, simulation.seed, 0, [client], {}, {}, {}
    )
    return simulation.data.train[client][task.order(client, 0)].split(4)
