"""Limits of single methods that are no other method."""

import pytest
import torch

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.task import LocalTask
from fedgrid.engine.rounds import federate
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final, used
from fedgrid.tree import leaves


def near(ours, theirs, tolerance=1e-6):
    assert set(ours) == set(theirs)
    for key in ours:
        torch.testing.assert_close(ours[key], theirs[key], rtol=0, atol=tolerance)


def test_fedrep_freezes_one_part_at_a_time():
    simulation = simulations.ragged(participation=0.5)
    start = simulation.model.initial(0)
    no_head = final("fedrep", simulation, head_epochs=0).clients.theta
    assert torch.equal(no_head["head.weight"], start["head.weight"].expand_as(no_head["head.weight"]))
    no_body = final("fedrep", simulation, body_epochs=0)
    near(no_body.server.theta, {key: start[key] for key in no_body.server.theta})
    assert (no_body.clients.theta["head.weight"] != start["head.weight"]).any()
    nothing = final("fedrep", simulations.ragged(clients=1), head_epochs=0, body_epochs=0).server.theta
    near(nothing, {key: start[key] for key in nothing}, 0)


def test_scaffold_keeps_the_mean_of_its_variates():
    state = final("scaffold", simulations.ragged(participation=0.5, rounds=6))
    mean = {key: t.mean(dim=0) for key, t in state.clients.variate.items()}
    near(state.server.variate, mean)
    assert max(t.abs().max() for t in leaves(mean)) > 1e-3


def test_scaffold_counts_the_clients_that_have_images():
    """With others in N, c would stay behind the mean and brake every step."""
    index = [simulations.draw(range(5)), simulations.draw([6, 7, 8]), [], []]
    state = final("scaffold", simulations.simulation(index, [simulations.draw([0])] * 4))
    near(state.server.variate, {key: t[:2].mean(dim=0) for key, t in state.clients.variate.items()})


@pytest.mark.parametrize(("name", "mean", "own"), [("scaffold", "variate", "variate"), ("feddyn", "drift", "drift")])
def test_what_a_server_keeps_is_the_mean_of_what_clients_keep_where_uploads_are_lost(name, mean, own):
    state = final(name, simulations.ragged(5, rounds=6, dropout=0.5, dtype="float64"))
    near(state.server[mean], state.clients[own].map(lambda t: t.mean(dim=0)), 1e-12)
    assert all(t.any() for t in state.clients[own].values())


def test_scaffold_with_one_step_a_round_is_fedavg_for_ever():
    """Equal clients: the corrections cancel in the mean."""
    clients = [simulations.draw(range(i, i + 5), start=40 * i) for i in range(3)]
    one_step = {"batch_size": 99, "rounds": 5, "dtype": "float64"}
    ours = final("scaffold", simulations.simulation(clients, **one_step)).server.theta
    near(ours, final("fedavg", simulations.simulation(clients, **one_step)).server.theta, 1e-12)


def test_pfedme_that_does_not_mix_stays():
    simulation = simulations.ragged()
    near(final("pfedme", simulation, beta=0.0).server.theta, simulation.model.initial(0), 0)
    near(final("pfedme", simulation, lam=0.0).server.theta, simulation.model.initial(0))


def test_pfedme_scores_its_personal_models():
    """Not the local copies, which are what the server averages."""
    simulation = simulations.ragged(rounds=1)
    state = final("pfedme", simulation)
    own = used("pfedme", simulation)
    assert not torch.equal(own["head.weight"], final("pfedme", simulation, lam=0.0).clients.personal["head.weight"])
    for name, t in state.server.theta.items():
        assert not torch.allclose(own[name].mean(dim=0), t, atol=1e-5), name


def test_perfedavg_limits():
    simulation = simulations.ragged()
    near(final("perfedavg", simulation, beta=0.0).server.theta, simulation.model.initial(0))
    own = used("perfedavg", simulation, alpha=0.0)
    near(own, everyone(simulation, 3).replicate(final("perfedavg", simulation, alpha=0.0).server.theta), 0)


@pytest.mark.parametrize(("version", "order"), [("fo", 2), ("hf", 3)])
def test_perfedavg_trains_on_the_second_batch_of_each_step_where_alpha_is_0(version, order):
    """One client with as many batches as a meta-step takes: FedAvg on the second one alone."""
    index = simulations.draw([i % 10 for i in range(4 * order)])
    simulation = simulations.simulation([index], rounds=1, batch_size=4)
    second = [batches(simulation, 0)[1].tolist()]
    ours = final("perfedavg", simulation, alpha=0.0, version=version, passes=1).server.theta
    near(ours, final("fedavg", simulations.simulation(second, rounds=1, batch_size=4)).server.theta)


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
    near(ours, exact, 1e-7)
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


def test_a_sharp_attention_does_not_overflow():
    assert all(
        t.isfinite().all() for t in leaves(final("fedamp", simulations.ragged(), heuristic=True, sharpness=1e4).clients)
    )


def test_fedala_weights_stay_in_range_and_converge_once():
    state = final("fedala", simulations.ragged(rounds=4), eta=50.0)
    for t in leaves(state.clients.weights):
        assert ((t >= 0) & (t <= 1)).all()
    assert any((t < 1).any() for t in leaves(state.clients.weights))
    assert state.clients.started.all()
    assert not final(
        "fedala", simulations.ragged(rounds=1)
    ).clients.started.any()  # nothing to merge in the first round


def test_fedala_overwrites_the_lower_layers():
    simulation = simulations.ragged()
    own, shared = used("fedala", simulation, eta=0.5), final("fedala", simulation, eta=0.5).server.theta
    for name, t in shared.items():
        same = torch.equal(own[name], t.expand_as(own[name]))
        assert same == name.startswith("extractor"), name


def test_fedpac_keeps_the_head_of_an_idle_client():
    simulation = simulations.ragged(participation=0.3, rounds=1)
    heads = final("fedpac", simulation).clients.theta["head.weight"]
    start = simulation.model.initial(0)["head.weight"]
    assert sum(torch.equal(head, start) for head in heads) == 4


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


def test_lost_uploads_change_what_the_server_knows_and_nothing_else():
    simulation = simulations.ragged(rounds=1)
    all_, some, none = (final("fedcrl", simulation, lost_uploads=p) for p in (0.0, 0.6, 1.0))
    near(all_.clients.theta, some.clients.theta, 0)
    assert not torch.equal(all_.server.theta["extractor.1.weight"], some.server.theta["extractor.1.weight"])
    assert none.server.known.any()  # one upload arrives in any case


def test_moon_repels_from_the_last_model_only_after_it_has_trained():
    one, two = ({"mu": 5.0}, {"mu": 0.0})
    first = simulations.ragged(rounds=1)
    near(final("moon", first, **one).server.theta, final("moon", first, **two).server.theta)
    later = simulations.ragged(rounds=3)
    ours, plain = (final("moon", later, **given).server.theta["head.weight"] for given in (one, two))
    assert (ours - plain).abs().max() > 1e-4


def batches(simulation, client):
    task = LocalTask(
        simulation.data, simulation.data.train, simulation.model, 4, simulation.seed, 0, [client], {}, {}, {}
    )
    return simulation.data.train[client][task.order(client, 0)].split(4)
