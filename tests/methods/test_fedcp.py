"""FedCP: gate and distance by hand, limits of its loss, what stays and what travels."""

import math

import numpy as np
import pytest
import torch
from nearness import all_near, doubles, near
from plane import points
from torch import nn
from trajectories import next_state, numbers, traffic

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.rounds import federate
from fedgrid.methods.fedcp import FedCP, mmd, personal_share
from fedgrid.models.base import Network
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree, row


class Turned(Network):
    """Representations of two numbers are the images themselves times a matrix; three classes."""

    def __init__(self):
        extractor = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False))
        super().__init__({"extractor": extractor, "head": nn.Linear(2, 3)}, 2, 3)


def gate(**changes):
    entries = {
        "gate.weight": doubles([1, -1], [0.5, 2], [-1, 0.3], [0.7, 0.2]),
        "gate.bias": doubles(0.1, -0.2, 0.3, 0.4),
        "gate.scale": doubles(1, 2, 0.5, 1.5),
        "gate.shift": doubles(0.2, 0, 0.4, -0.1),
    }
    return Tree(entries) | {f"gate.{kind}": t for kind, t in changes.items()}


def model(shift):
    """Extractor and head that depend on a number, each class in a way of its own."""
    weight = doubles([1, -1], [0.5, 2], [-1, 0.3]) + shift * doubles([1, 0.2], [-0.6, 2], [0.3, -0.4])
    head = {"head.weight": weight, "head.bias": doubles(0.1, -0.2, 0.3) * shift}
    return Tree({"extractor.1.weight": doubles([1, shift], [0, 1])}) | head


class Drawn(LossContext):
    """Noise that differs by feature alone: from uniform numbers between 0.1 and 0.9."""

    def uniform(self, purpose, like):
        return drawn(like)


def drawn(like):
    return torch.linspace(0.1, 0.9, like.shape[1], dtype=like.dtype).expand_as(like)


RECEIVED, HEAD_BEFORE = model(2.0), model(-0.5).part("head")
CONTEXT = Drawn(Turned(), Tree(theta=RECEIVED), Tree(head=HEAD_BEFORE), 1)


# By hand


def test_the_distance_of_two_sets():
    """Of two opposite sides of a 2×1 rectangle, with the kernels exp(−d²/2s)."""
    side, other = doubles([0, 0], [2, 0]), doubles([0, 1], [2, 1])
    near(mmd(side, other), 0.216717, 5e-7)
    near(mmd(other, side), 0.216717, 5e-7)
    near(mmd(side, side.flip(0)), 0)
    far = doubles([100, 0])  # kernels of equal points are 1 each, of distant ones 0
    near(mmd(0 * far, far), 8)


def test_the_gate_of_an_image():
    """v = (3, 4) after summing over classes, so z⊙v/‖v‖ = (1.2, 0.8) for z = (2, 1)."""
    weight = doubles([1, 5], [2, -1])
    theta = gate(
        weight=doubles([1, 0], [0, 1], [0, 0], [0, 0]), bias=doubles(0.8, 1.2, 0, 4), scale=doubles(1, 1, 1, 2)
    )
    before = np.array([2, 2, 0, 4])
    of_gate = (before - 2) / np.sqrt(2 + 1e-5) * [1, 1, 1, 2] + [0.2, 0, 0.4, -0.1]
    a0, a1, b0, b1 = np.maximum(of_gate, 0)
    assert b0 == 0 and b1 > 2  # the ReLU acts on one of them
    expected = [[1 / (1 + np.exp(b0 - a0)), 1 / (1 + np.exp(b1 - a1))]]
    near(personal_share(theta, doubles([2, 1]), weight), expected)
    near(personal_share(theta, doubles([2, 1]), 7 * weight), expected)
    assert not torch.equal(personal_share(theta, doubles([2, 1]), -weight), doubles(*expected))


def test_noise_is_that_of_gumbel_softmax():
    """The first of two classes wins by more than t : 1 − t with the probability σ(a − b − logit t)."""
    theta = gate(weight=torch.zeros(4, 2).double(), scale=torch.zeros(4).double(), shift=doubles(0.7, 0.7, 0.1, 0.1))
    at = LossContext(Turned(), Tree(theta=RECEIVED), Tree(head=HEAD_BEFORE), 7)
    captured = []

    class Watched(type(simulations.method("fedcp"))):
        def logits(self, theta, z, r, at):
            captured.append(r.detach())
            return super().logits(theta, z, r, at)

    batch = points(*[[1, 2]] * 10_000, labels=[0] * 10_000)
    Watched(lam=0.0).loss(model(1.0) | theta, batch, at)
    shares = captured[0].flatten()
    for t in (0.2, 0.5, 0.8):
        expected = 1 / (1 + math.exp(-(0.6 - math.log(t / (1 - t)))))
        assert float((shares > t).double().mean()) == pytest.approx(expected, abs=0.015)
    assert not torch.equal(captured[0][:, 0], captured[0][:, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("number", [0.0, 1 - 2**-24])
def test_extreme_noise_is_finite(number, dtype, monkeypatch):
    monkeypatch.setattr(Drawn, "uniform", lambda self, purpose, like: torch.full_like(like, number))
    to = lambda tree: tree.map(lambda t: t.to(dtype))  # noqa: E731
    at = Drawn(Turned(), Tree(theta=to(RECEIVED)), Tree(head=to(HEAD_BEFORE)), 1)
    batch = points([2, 1], labels=[1])
    slope = torch.func.grad(simulations.method("fedcp", lam=5.0).loss)(
        to(model(1.0) | gate()), Batch(batch.x.to(dtype), batch.y), at
    )
    assert all(t.isfinite().all() for t in slope.values())


def test_prediction_has_no_noise():
    """It is what a loss sees whose noise is 0, under the model's own head."""
    method, theta = simulations.method("fedcp"), model(1.0) | gate()
    batch = points([2, 1], [0.5, 3], labels=[0, 1])
    z = CONTEXT.model.features(theta, batch.x)
    r = personal_share(theta, z, theta["head.weight"])
    expected = CONTEXT.model.head(theta, r * z) + CONTEXT.model.head(RECEIVED, z - r * z)
    near(method.predict(theta, batch.x, LossContext(Turned(), Tree(theta=RECEIVED), Tree(), None)), expected)


def test_the_received_extractor_is_in_evaluation_mode():
    simulation = simulations.ragged(2, norm="batch", dtype="float64")
    method, network = simulations.method("fedcp", lam=2.0), simulation.model
    state = method.setup(everyone(simulation, 0))
    received = state.server.theta.map(lambda t: 0.9 * t + 0.1)
    batch = simulation.data.batch(simulation.data.train[0])
    theta = received.map(lambda t: t + 0.1)
    at = Drawn(network.learning(3), Tree(theta=received), Tree(head=row(state.clients.head, 0)), 3)
    z, other = network.learning(3).features(theta, batch.x), network.features(received, batch.x)
    value, free = method.loss(theta, batch, at), simulations.method("fedcp", lam=0.0).loss(theta, batch, at)
    near(value - free, 2 * mmd(z, other))
    assert value > free


# Rounds


def test_cross_entropy_leaves_the_vector_of_the_gate_alone():
    """The rows of a head's slope add up to 0, so that steps of SGD leave their sum where it was; Adam's do not."""
    training = {"rounds": 2, "lr": 0.1, "dtype": "float64"}
    simulation = simulations.ragged(3, **training)
    start, weight = simulation.initial["head.weight"], final("fedcp", simulation).clients.head["head.weight"]
    assert (weight - start).abs().amax(dim=(1, 2)).min() > 1e-3
    near(weight.sum(dim=1), start.sum(dim=0).double().expand(3, -1))
    adam = final("fedcp", simulations.ragged(3, **training, optimizer="adam")).clients.head["head.weight"]
    assert (adam.sum(dim=1) - start.sum(dim=0)).abs().max() > 1e-2


def test_an_open_gate_and_no_distance_is_fedper():
    """A gate that gives everything to the client's head, and a server's head that is 0."""
    simulation = simulations.ragged(3, rounds=1, lr=0.1, dtype="float64")
    method = simulations.method("fedcp", lam=0.0)
    state = method.setup(everyone(simulation, 0))
    theta, k = state.server.theta, simulation.model.width
    shift = torch.cat([torch.full((k,), 1000.0), torch.zeros(k)]).double()
    fixed = {"gate.scale": 0 * theta["gate.scale"], "gate.shift": shift} | theta.part("head").map(torch.zeros_like)
    after = next_state(method, simulation, 0, state.update(server={"theta": theta | fixed}))
    expected = final("fedper", simulation)
    all_near(after.server.theta.part("extractor"), expected.server.theta)
    all_near(after.clients.head, expected.clients.theta.part("head"))


def test_a_client_without_images_changes_nothing_for_others():
    """It keeps the head of the start."""
    index = [simulations.draw([7]), simulations.draw([0, 1, 2, 3])]
    training = {"rounds": 2, "lr": 0.1, "dtype": "float64"}
    alone = final("fedcp", simulations.simulation(index, **training))
    simulation = simulations.simulation([*index, []], [*index, simulations.draw([5])], **training)
    state = final("fedcp", simulation)
    all_near(state.server.theta, alone.server.theta, 0)
    all_near(row(state.clients.head, 2), Tree(simulation.initial).part("head"), 0)
    all_near(state.clients.head.rows(torch.tensor([0, 1])), alone.clients.head, 0)


def test_the_network_and_the_gate_travel():
    simulation = simulations.ragged(3, rounds=2)
    k = simulation.model.width
    sent = [[4 * (numbers(simulation.initial) + 2 * k * k + 2 * k + 2 * 2 * k)] * 3] * 2
    assert traffic("fedcp", simulation) == {"up": sent, "down": sent}


def test_the_default_weight_is_a_tenth_of_the_authors_at_their_rate():
    weights = []

    class Noting(FedCP):
        def loss(self, theta, batch, at):
            weights.append(at.server.lam)
            return super().loss(theta, batch, at)

    for lr in (0.005, 0.05):
        federate(Noting(), simulations.ragged(2, rounds=1, lr=lr))
    assert {round(weight, 12) for weight in weights} == {0.5, 0.05}
