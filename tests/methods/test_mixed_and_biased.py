"""APFL and DBE: steps by hand, what a client learns for itself, and what it keeps."""

import pytest
import torch
from nearness import DOUBLE, all_near, doubles, near
from plane import at, points
from trajectories import numbers, traffic

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.context import LossContext
from fedgrid.methods.apfl import APFL
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree

# APFL: steps by hand


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


# APFL: limits


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


HEAD = Tree({"head.weight": torch.eye(2).double(), "head.bias": torch.zeros(2).double()})


def test_dbe_pulls_the_mean_of_a_batch():
    """½·50·(1² + 2²)/2, whatever the points that have the mean (1, 3); the vector m is no part of it."""
    context, theta = at(server={"mean_feature": doubles(0, 1)}), HEAD | {"memory": doubles(5, -7)}
    for batch in (points([1, 3]), points([0, 2], [2, 4])):
        pulled, free = (simulations.method("feddbe", kappa=kappa).loss(theta, batch, context) for kappa in (50.0, 0.0))
        near(pulled - free, 62.5, 1e-9)


def test_dbes_vector_is_added_to_features():
    """At m = 0 and equal logits its slope is (½ − 1, ½)."""
    method, context = simulations.method("feddbe", kappa=0.0), at(server={"mean_feature": doubles(0, 0)})
    slope = torch.func.grad(method.loss)(HEAD | {"memory": doubles(0, 0)}, points([0, 0]), context)
    near(slope.memory, [-0.5, 0.5])
    near(method.predict(HEAD | {"memory": doubles(5, -7)}, points([1, 2]).x, context), [[6, -5]])
    near(method.predict(HEAD, points([1, 2]).x, context), [[1, 2]])


# DBE: rounds


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
    theta = numbers(simulation.initial)
    model, both = ([4 * size] * 5 for size in (theta, theta + simulation.model.width))
    assert traffic("feddbe", simulation) == {"up": [both, model, model], "down": [model, both, both]}


def test_dbe_without_vectors_has_the_global_model_alone():
    simulation = simulations.ragged(**DOUBLE)
    state = final("feddbe", simulation, memory=False)
    assert not state.clients
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
