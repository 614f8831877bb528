"""APFL and DBE: steps and rounds by hand, what a client learns for itself, and what it keeps."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.local.loop import Loop
from fedgrid.methods.apfl import APFL
from fedgrid.models.base import Network
from fedgrid.settings import Training
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final, one_round, used
from fedgrid.tree import Tree

DOUBLE = {"dtype": "float64"}


def near(ours, expected, tolerance=1e-12):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(ours.double(), expected, rtol=0, atol=tolerance)


def all_near(ours, theirs, tolerance=1e-12):
    assert set(ours) == set(theirs)
    for name in ours:
        near(ours[name], theirs[name].expand_as(ours[name]), tolerance)


def doubles(*rows):
    return torch.tensor(rows, dtype=torch.float64)


# APFL: steps and rounds by hand


class Parabola(APFL):
    """f(u) = ½(u − 3)²."""

    def loss(self, theta, batch, at):
        return (theta["x"] - 3).square().sum() / 2


def stepped(w, v, alpha, lr=0.1, **settings):
    """w, v, α and the loss of a step."""
    at = LossContext(None, Tree(lr=lr), Tree(), None)
    models = Tree(local=Tree(x=doubles(w)), personal=Tree(x=doubles(v)), alpha=doubles(alpha)[0])
    after, value = Parabola(**settings).step(models, None, at)
    return [float(t) for t in (after.local.x, after.personal.x, after.alpha, value)]


@pytest.mark.parametrize(
    ("start", "settings", "expected"),
    [
        ((0, 2, 0.5), {}, (0.3, 2.1, 0.9, 2)),  # v̄ = 1, whose slope is −2
        ((0, 2, 0.5), {"adaptive": False}, (0.3, 2.1, 0.5, 2)),
        ((0, 2, 0.5), {"lr": 1.0}, (3, 3, 1, 2)),  # 0.5 + 4 is above 1
        ((2, 0, 0.5), {}, (2.1, 0.1, 0.1, 2)),
        ((2, 0, 0.5), {"lr": 1.0}, (3, 1, 0, 2)),
        ((1, 2, 0.0), {}, (1.2, 2, 0.2, 2)),  # it leaves 0
        ((2, 2, 0.5), {}, (2.1, 2.05, 0.5, 0.5)),  # nothing to choose between equal models
    ],
)
def test_a_step_of_apfl(start, settings, expected):
    assert stepped(*start, **settings) == pytest.approx(expected, abs=1e-12)


def test_two_rounds_of_apfl_by_hand():
    """Two unequal clients with one batch each: v̄ goes on from v, with the new w."""
    eta, alphas = 0.1, [0.4, 0.4]
    index = [simulations.draw(range(5)), simulations.draw([7, 8, 9], start=50)]
    simulation = simulations.simulation(index, rounds=2, batch_size=9, lr=eta, **DOUBLE)
    batches = [simulation.data.batch(rows) for rows in simulation.data.train]

    def slope(theta, batch):
        return torch.func.grad(lambda t: cross_entropy(simulation.model(t, batch.x), batch.y))(theta)

    def mix(alpha, first, second):
        return {name: alpha * t + (1 - alpha) * second[name] for name, t in first.items()}

    def down(theta, rate, direction):
        return {name: t - rate * direction[name] for name, t in theta.items()}

    w = dict(simulation.initial)
    v, method = [w, w], simulations.method("apfl", alpha=0.4)
    state = method.setup(everyone(simulation, 0))
    for number in range(2):
        locals_ = []
        for i, batch in enumerate(batches):
            mixed = slope(mix(alphas[i], v[i], w), batch)
            towards = sum(((v[i][name] - t) * mixed[name]).sum() for name, t in w.items())
            locals_.append(down(w, eta, slope(w, batch)))
            v[i] = down(v[i], eta * alphas[i], mixed)
            alphas[i] = min(max(alphas[i] - eta * float(towards), 0), 1)
        with torch.no_grad():
            state = one_round(method, simulation, number, state)[1]
        w = {name: 5 / 8 * t + 3 / 8 * locals_[1][name] for name, t in locals_[0].items()}
        received = method.received(everyone(simulation, number + 1), state)
        all_near(state.server.theta, w)
        near(state.clients.alpha, alphas)
        for i in range(2):
            all_near(state.clients.personal.rows(torch.tensor([i])), v[i])
            all_near(state.trained.rows(torch.tensor([i])), mix(alphas[i], v[i], locals_[i]))
            all_near(received.rows(torch.tensor([i])), mix(alphas[i], v[i], w))
    assert all(0 < abs(alpha - 0.4) < 0.4 for alpha in alphas)


# APFL: limits


def test_a_mixture_of_equal_models_is_that_model():
    simulation = simulations.ragged()
    method, fed = simulations.method("apfl"), everyone(simulation, 0)
    all_near(method.received(fed, method.setup(fed)), simulation.initial, 0)


def test_apfls_idle_clients_keep_alpha_and_their_model():
    simulation = simulations.ragged(participation=0.5, rounds=2, **DOUBLE)
    state = final("apfl", simulation)
    drawn = {client for number in range(2) for client in participants(simulation, number).tolist()}
    idle = [client for client in range(5) if client not in drawn]
    assert idle and (state.clients.alpha[sorted(drawn)] != 0.5).any()
    near(state.clients.alpha[idle], [0.5] * len(idle), 0)
    all_near(state.clients.personal.rows(torch.tensor(idle)), simulation.initial, 0)


def test_apfl_may_keep_every_alpha():
    state = final("apfl", simulations.ragged(), alpha=0.3, adaptive=False)
    assert torch.equal(state.clients.alpha, torch.full((5,), 0.3))
    learned = final("apfl", simulations.ragged(), alpha=0.3).clients.alpha
    assert (learned != 0.3).any() and ((learned >= 0) & (learned <= 1)).all()


def test_apfls_rate_is_the_studys_or_its_own():
    usual, given, other = (
        final("apfl", simulations.ragged(**training), lr=lr)
        for training, lr in (({"lr": 0.1}, None), ({"lr": 0.003, "optimizer": "adam"}, 0.1), ({"lr": 0.05}, None))
    )
    simulations.assert_equal_states(usual, given)
    assert not torch.equal(usual.server.theta["head.weight"], other.server.theta["head.weight"])


@pytest.mark.parametrize(("alpha", "other", "models"), [(0.0, "fedavg", "server"), (1.0, "local", "clients")])
def test_apfls_images_are_moved_against_the_mixture(alpha, other, models):
    """At α = 0 that is the global model, at α = 1 the client's own; both are one in the first round."""
    simulation = simulations.ragged(3, rounds=2, batch_size=8, adversarial={"steps": 1}, **DOUBLE)
    ours, theirs = final("apfl", simulation, alpha=alpha, adaptive=False), final(other, simulation)
    if models == "server":
        all_near(ours.server.theta, theirs.server.theta, 1e-9)
    else:
        all_near(ours.clients.personal, theirs.clients.theta, 1e-9)


# DBE: worked examples


class Plane(Network):
    """Representations of two numbers are the images themselves."""

    def __init__(self):
        super().__init__({"extractor": nn.Flatten(), "head": nn.Linear(2, 2)}, 2, 2)


HEAD = Tree({"head.weight": torch.eye(2).double(), "head.bias": torch.zeros(2).double()})


def points(*rows):
    """Images that are points of the plane, all of class 0."""
    return Batch(doubles(*rows).reshape(-1, 1, 1, 2), torch.zeros(len(rows), dtype=torch.long))


def context(mean=(0, 0)):
    return LossContext(Plane(), Tree(mean_feature=doubles(*mean)), Tree(), None)


def planar(*clients):
    """A simulation of two rounds whose clients have these points for images."""
    batch, ends = points(*[point for client in clients for point in client]), np.cumsum([len(c) for c in clients])
    train = [torch.arange(end - len(client), end) for client, end in zip(clients, ends.tolist(), strict=True)]
    one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    data = ClientData(batch.x, batch.y, train, train, 2, 0 * one, one)
    return Simulation(data, Plane(), Training(rounds=2, **DOUBLE), Loop(), 0, torch.device("cpu"))


def test_dbe_pulls_the_mean_of_a_batch():
    """½·50·(1² + 2²)/2, whatever the points that have the mean (1, 3); the vector m is no part of it."""
    at, theta = context((0, 1)), HEAD | {"memory": doubles(5, -7)}
    for batch in (points([1, 3]), points([0, 2], [2, 4])):
        pulled, free = (simulations.method("feddbe", kappa=kappa).loss(theta, batch, at) for kappa in (50.0, 0.0))
        near(pulled - free, 62.5, 1e-9)


def test_dbes_common_mean_weighs_clients_by_their_images():
    simulation = planar([[1, 3], [3, 5]] * 15, [[0, 1]] * 10)
    state = final("feddbe", simulation)
    near(state.server.mean_feature, [1.5, 3.25])
    assert state.server.known


def test_dbes_vector_is_added_to_features():
    """At m = 0 and equal logits its slope is (½ − 1, ½)."""
    method, at = simulations.method("feddbe", kappa=0.0), context()
    slope = torch.func.grad(method.loss)(HEAD | {"memory": doubles(0, 0)}, points([0, 0]), at)
    near(slope.memory, [-0.5, 0.5])
    near(method.predict(HEAD | {"memory": doubles(5, -7)}, points([1, 2]).x, at), [[6, -5]])
    near(method.predict(HEAD, points([1, 2]).x, at), [[1, 2]])


# DBE: rounds


def test_dbes_vectors_stay_0_in_the_first_round_and_move_in_the_second():
    simulation = simulations.ragged(rounds=1, weight_decay=0.1, momentum=0.5)
    first = final("feddbe", simulation)
    assert first.server.known and not first.clients.memory.any()
    second = final("feddbe", simulations.ragged(rounds=2, weight_decay=0.1, momentum=0.5)).clients.memory
    assert (second.abs().amax(dim=1) > 1e-4).all() and second.unique(dim=0).shape == second.shape


def test_dbes_common_mean_is_fixed_after_the_first_round():
    simulation = simulations.ragged(rounds=1, **DOUBLE)
    method, fed = simulations.method("feddbe"), everyone(simulation, 0)
    first = one_round(method, simulation, 0, method.setup(fed))[1]
    means = [z.mean(dim=0) for z, _ in fed.representations(first.trained)]
    near(first.server.mean_feature, sum(p * z for p, z in zip(fed.weights, means, strict=True)))
    last = final("feddbe", simulations.ragged(rounds=3, participation=1.0, **DOUBLE))
    assert torch.equal(last.server.mean_feature, first.server.mean_feature)
    assert not torch.equal(last.server.theta["head.weight"], first.server.theta["head.weight"])


def test_dbe_holds_the_mean_of_features():
    simulation = simulations.ragged(rounds=6, **DOUBLE)

    def distance(kappa):
        state = final("feddbe", simulation, kappa=kappa)
        fed = everyone(simulation, 6, state)
        means = simulations.method("feddbe").mean_features(fed, fed.replicate(state.server.theta))
        return float((means - state.server.mean_feature).square().sum())

    assert distance(50.0) < distance(1.0) < distance(0.0)


def test_dbes_bytes():
    """The mean feature travels up in the first round and down in all others."""
    simulation = simulations.ragged()
    theta, k = sum(t.numel() for t in simulation.initial.values()), simulation.model.width
    rows = simulations.run("feddbe", simulation).progress.record.rows
    numbers = {(number, metric): set(values) for number, metric, _, values in rows if metric.startswith("bytes_")}
    for number in (1, 2, 3):
        assert numbers[number, "bytes_up"] == {4 * (theta + (k if number == 1 else 0))}
        assert numbers[number, "bytes_down"] == {4 * (theta + (0 if number == 1 else k))}


def test_dbes_clients_use_the_global_model_with_their_vector():
    simulation = simulations.ragged(participation=0.5)
    state, own = final("feddbe", simulation), used("feddbe", simulation)
    theta = Tree((name, t) for name, t in own.items() if name != "memory")
    all_near(theta, state.server.theta, 0)
    assert torch.equal(own.memory, state.clients.memory)
    drawn = {client for number in range(3) for client in participants(simulation, number).tolist()}
    assert all(client in drawn for client in own.memory.any(dim=1).nonzero().flatten().tolist())
    assert set(simulations.method("feddbe").global_model(state)) == set(simulation.initial)


def test_dbe_without_vectors_has_the_global_model_alone():
    simulation = simulations.ragged(**DOUBLE)
    state = final("feddbe", simulation, memory=False)
    assert not state.clients
    all_near(used("feddbe", simulation, memory=False), state.server.theta, 0)
    assert set(state.server.theta) == set(simulation.initial)
    assert not torch.equal(state.server.theta["head.weight"], final("fedavg", simulation).server.theta["head.weight"])


def test_dbes_initial_period_lasts_until_an_upload_arrives():
    state = final("feddbe", simulations.ragged(dropout=1.0))
    assert not state.server.known and not state.server.mean_feature.any() and not state.clients.memory.any()


def test_dbe_without_an_epoch_knows_the_means_of_the_start():
    simulation = simulations.ragged(local_epochs=0, **DOUBLE)
    state, fed = final("feddbe", simulation), everyone(simulation, 0)
    assert not state.clients.memory.any()
    means = torch.stack([z.mean(dim=0) for z, _ in fed.representations(fed.replicate(simulation.initial))])
    near(state.server.mean_feature, fed.weights @ means)


def test_dbes_default_weight_is_the_authors_at_their_rate():
    for lr, kappa in ((0.005, 50.0), (0.05, 5.0)):
        simulation = simulations.ragged(3, lr=lr)
        ours, theirs = (final("feddbe", simulation, **given).server.theta for given in ({}, {"kappa": kappa}))
        all_near(ours, theirs, 1e-6)
