"""GPFL: the valve by hand, limits of its loss, what stays and what travels."""

import numpy as np
import torch
from nearness import all_near, doubles, near
from plane import Plane, at, points
from torch.nn.functional import cross_entropy
from trajectories import numbers, traffic

from fedgrid.engine.federation.participation import everyone
from fedgrid.methods.gpfl import EMBEDDINGS, modulation, valve
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree, row

KINDS = ("weight", "bias", "scale", "shift")


def planar(**changes):
    """θ of the plane, all entries of which differ."""
    entries = {
        "head.weight": doubles([1, -1], [0.5, 2], [-1, 0.3]),
        "head.bias": doubles(0.1, -0.2, 0.3),
        EMBEDDINGS: doubles([1, 2], [-1, 0.5], [3, -2]),
    }
    for number, name in enumerate(("gamma", "beta")):
        matrix = doubles([0.3, -0.7], [1.1, 0.4]) - number
        entries |= dict(
            zip(
                (f"guide.{name}.{kind}" for kind in KINDS),
                (matrix, *matrix[:, :1].T, matrix[0], matrix[1]),
                strict=True,
            )
        )
    return Tree(entries) | changes


RECEIVED = doubles([0.5, 1], [2, -1], [-0.5, 3])
"Embeddings of the server, other than the client's."
CONTEXT = at(Plane(3), {"theta": Tree({EMBEDDINGS: RECEIVED})}, condition=doubles(0.4, 1.3))


def loss(theta, batch, **settings):
    return simulations.method("gpfl", **settings).loss(theta, batch, CONTEXT)


# By hand


def test_the_valve_scales_and_shifts_features():
    """ReLU(Linear(u)) is (0, 2), and (0, 2) normalised is (−1, 1) up to LayerNorm's ε of 10⁻⁵."""
    one = 1 / np.sqrt(1 + 1e-5)
    parts = {
        "weight": doubles([-1, 0], [0, 1]),
        "bias": doubles(0, -1),
        "scale": doubles(0.5, 2),
        "shift": doubles(0, 1),
    }
    other = {"weight": doubles([0, 0], [1, 0]), "bias": doubles(0, 0), "scale": doubles(1, 1), "shift": doubles(0, -3)}
    theta = Tree({f"guide.gamma.{kind}": t for kind, t in parts.items()})
    theta |= {f"guide.beta.{kind}": t for kind, t in other.items()}
    condition = doubles(2, 3)
    near(modulation(theta, "guide.gamma", condition), [-one / 2, 1 + 2 * one])
    near(modulation(theta, "guide.beta", condition), [-one, one - 3])
    near(valve(theta, doubles([4, 1], [1, 0]), condition), [[4 - 3 * one, 3 * one - 1], [0, 0]])


def test_conditions_weigh_embeddings_by_a_clients_classes():
    """Of 1, 3 and 0 images with the labels 0, 1 and 2; and 0 without images."""
    simulation = simulations.simulation([simulations.draw([0, 1, 1, 1]), [], simulations.draw([2])], dtype="float64")
    method, fed = simulations.method("gpfl"), everyone(simulation, 0)
    state = method.setup(fed)
    e = state.server.theta[EMBEDDINGS]
    conditions = method.conditions(fed, state).condition
    near(conditions, torch.stack([0.25 * e[0] + 0.75 * e[1], 0 * e[0], e[2]]))
    near(method.received(fed, state).condition, conditions, 0)


def test_the_weight_of_the_distance_does_not_depend_on_the_batch():
    """Copies of images change nothing."""
    batch, twice = points([2, 1], [1, 3], labels=[0, 1]), points([2, 1], [1, 3], [2, 1], [1, 3], labels=[0, 1, 0, 1])
    near(loss(planar(), batch, lam=2.0), loss(planar(), twice, lam=2.0))


def test_embeddings_learn_from_cosines_alone():
    """Neither from the distance nor through conditions: their length does not matter."""
    batch = points([2, 1], [1, 3], labels=[0, 1])
    far, near_by = (torch.func.grad(loss)(planar(), batch, lam=lam, mu=0.0) for lam in (5.0, 0.0))
    near(far[EMBEDDINGS], near_by[EMBEDDINGS])
    assert near_by[EMBEDDINGS].any() and not torch.equal(far["guide.beta.shift"], near_by["guide.beta.shift"])
    longer = planar(**{EMBEDDINGS: 3 * planar()[EMBEDDINGS]})  # with the same directions
    near(loss(longer, batch, lam=5.0, mu=0.0), loss(planar(), batch, lam=5.0, mu=0.0))


def test_a_closed_valve_has_finite_slopes():
    """All features 0: the cosine of nothing is 0, and nothing reaches the features."""
    shut = planar(**{"guide.beta.scale": doubles(0, 0), "guide.beta.shift": doubles(-99, -99)})
    batch = points([2, 1], labels=[1])
    slope, value = torch.func.grad_and_value(loss)(shut, batch, mu=0.0, lam=0.0)
    near(value, cross_entropy(shut["head.bias"], torch.tensor(1)) + np.log(3))
    assert all(t.isfinite().all() for t in slope.values())
    assert not slope["guide.beta.shift"].any()


# Rounds


def test_a_client_without_images_changes_nothing_for_others():
    """It keeps the head of the start."""
    index = [simulations.draw([7]), simulations.draw([0, 1, 2, 3])]
    training = {"rounds": 2, "lr": 0.1, "dtype": "float64"}
    alone = final("gpfl", simulations.simulation(index, **training))
    simulation = simulations.simulation([*index, []], [*index, simulations.draw([5])], **training)
    state = final("gpfl", simulation)
    all_near(state.server.theta, alone.server.theta, 0)
    all_near(row(state.clients.head, 2), Tree(simulation.initial).part("head"), 0)
    all_near(state.clients.head.rows(torch.tensor([0, 1])), alone.clients.head, 0)


def test_extractor_embeddings_and_valve_travel():
    simulation = simulations.ragged(3, rounds=2)
    k, classes = simulation.model.width, simulation.model.classes
    phi = Tree(simulation.initial).part("extractor")
    sent = [[4 * (numbers(phi) + classes * k + 2 * (k * k + k) + 4 * k)] * 3] * 2
    assert traffic("gpfl", simulation) == {"up": sent, "down": sent}
