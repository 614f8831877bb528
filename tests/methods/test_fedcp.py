"""FedCP: gate, distance and loss by hand, rounds against torch's own layers, what stays and what travels."""

import math

import numpy as np
import pytest
import torch
from nearness import all_near, near
from torch import nn
from torch.nn.functional import cross_entropy

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.rounds import federate
from fedgrid.methods.fedcp import FedCP, mmd, personal_share
from fedgrid.models.base import Network
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final, one_round
from fedgrid.tree import Tree, row

KINDS = ("weight", "bias", "scale", "shift")


class Turned(Network):
    """Representations of two numbers are the images themselves times a matrix; three classes."""

    def __init__(self):
        extractor = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False))
        super().__init__({"extractor": extractor, "head": nn.Linear(2, 3)}, 2, 3)


def doubles(*rows):
    return torch.tensor(rows, dtype=torch.float64)


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


def points(*rows, labels):
    """Images that are points of the plane."""
    return Batch(doubles(*rows).reshape(-1, 1, 1, 2), torch.tensor(labels))


# By hand


def test_the_distance_of_two_sets():
    """Of two opposite sides of a 2×1 rectangle, with the kernels exp(−d²/2s)."""
    side, other = doubles([0, 0], [2, 0]), doubles([0, 1], [2, 1])
    near(mmd(side, other), 0.216717, 5e-7)
    near(mmd(other, side), 0.216717, 5e-7)
    near(mmd(side, side.flip(0)), 0)
    far = doubles([100, 0])  # kernels of equal points are 1 each, of distant ones 0
    near(mmd(0 * far, far), 8)


def by_loops(z, other):
    def kernel(a, b):
        return sum(np.exp(-((a - b) ** 2).sum() / (2 * s)) for s in (10, 15, 20, 50))

    pairs = list(zip(z, other, strict=True))
    return np.mean([[kernel(a, b) + kernel(c, d) - 2 * kernel(a, d) for b, d in pairs] for a, c in pairs])


def test_the_distance_by_loops():
    z, other = (doubles(*np.random.default_rng(seed).normal(3, 4, (5, 3)).tolist()) for seed in (0, 1))
    near(mmd(z, other), by_loops(z.numpy(), other.numpy()))


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


@pytest.mark.parametrize("lam", [0.0, 0.8])
def test_the_loss_of_a_batch(lam):
    """In numpy, image by image; the head in v is that from before the round."""
    theta, batch = model(1.0) | gate(), points([2, 1], [0.5, 3], [1, -2], labels=[0, 2, 2])
    t, g = ({name: value.numpy() for name, value in tree.items()} for tree in (theta, RECEIVED))
    v = HEAD_BEFORE["head.weight"].numpy().sum(axis=0)
    v = v / np.sqrt((v**2).sum())
    x = batch.x.flatten(1).numpy()
    z, other = x @ t["extractor.1.weight"].T, x @ g["extractor.1.weight"].T
    gumbel = np.log([0.1 / 0.9, 0.9 / 0.1]) + 3, np.array([3, 3])
    entropies = []
    for z_b, label in zip(z, batch.y.tolist(), strict=True):
        h = t["gate.weight"] @ (z_b * v) + t["gate.bias"]
        h = np.maximum((h - h.mean()) / np.sqrt(h.var() + 1e-5) * t["gate.scale"] + t["gate.shift"], 0)
        first, second = np.exp(h[:2] + gumbel[0]), np.exp(h[2:] + gumbel[1])
        r = first / (first + second)
        logits = t["head.weight"] @ (r * z_b) + t["head.bias"] + g["head.weight"] @ ((1 - r) * z_b) + g["head.bias"]
        entropies.append(np.log(np.exp(logits).sum()) - logits[label])
    expected = np.mean(entropies) + lam * by_loops(z, other)
    near(simulations.method("fedcp", lam=lam).loss(theta, batch, CONTEXT), expected)


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


class Reference(nn.Module):
    """A client of torch's layers."""

    def __init__(self, network, shared, head):
        super().__init__()
        k, self.network = network.width, network
        self.extractor = nn.ParameterDict(
            {name.replace(".", "/"): nn.Parameter(t.clone()) for name, t in shared.part("extractor").items()}
        )
        self.received = shared.part("extractor")
        self.private, self.generic = nn.Linear(k, network.classes), nn.Linear(k, network.classes)
        self.gate = nn.Sequential(nn.Linear(k, 2 * k), nn.LayerNorm(2 * k), nn.ReLU())
        self.double()
        with torch.no_grad():
            for name, parameter in self.names().items():
                parameter.copy_((shared | head)[name])
            self.generic.weight.copy_(shared["head.weight"])
            self.generic.bias.copy_(shared["head.bias"])
        v = self.private.weight.detach().sum(dim=0)
        self.v = v / v.norm()

    def names(self):
        """Trained parameters by the names of θ."""
        names = {name.replace("/", "."): t for name, t in self.extractor.items()}
        names |= {"head.weight": self.private.weight, "head.bias": self.private.bias}
        linear, norm, _ = self.gate
        parameters = (linear.weight, linear.bias, norm.weight, norm.bias)
        return names | dict(zip((f"gate.{kind}" for kind in KINDS), parameters, strict=True))

    def both(self, x, noise):
        """Logits, and features."""
        z = self.network.features({name.replace("/", "."): t for name, t in self.extractor.items()}, x)
        pair = self.gate(z * self.v).view(len(z), 2, -1) + torch.stack([noise, torch.zeros_like(noise)])
        personal, generic = pair.softmax(dim=1).unbind(dim=1)
        return self.private(personal * z) + self.generic(generic * z), z

    def learn(self, batch, epochs, lr, momentum, lam):
        """Steps on one batch."""
        optimizer = torch.optim.SGD(list(self.names().values()), lr=lr, momentum=momentum)
        noise = torch.logit(drawn(self.v.unsqueeze(0)))[0]
        other = self.network.features(self.received, batch.x)
        for _ in range(epochs):
            logits, z = self.both(batch.x, noise)
            squared = [torch.cdist(a, b).square() for a, b in ((z, z), (other, other), (z, other))]
            zz, oo, zo = (sum(torch.exp(-d / (2 * s)) for s in (10, 15, 20, 50)).mean() for d in squared)
            optimizer.zero_grad()
            (cross_entropy(logits, batch.y) + lam * (zz + oo - 2 * zo)).backward()
            optimizer.step()


@pytest.mark.parametrize("labels", [[3, 4, 4], [3]], ids=["three images", "one image"])
def test_three_rounds_of_two_clients(labels, monkeypatch):
    """Unequal clients with one batch and two steps a round, and momentum."""
    monkeypatch.setattr(LossContext, "uniform", Drawn.uniform)
    index = [simulations.draw([0, 0, 1, 2, 3]), simulations.draw(labels, start=50)]
    p = 5 / (5 + len(labels))
    training = {"rounds": 3, "local_epochs": 2, "batch_size": 9, "lr": 0.2, "momentum": 0.5, "dtype": "float64"}
    simulation = simulations.simulation(index, **training)
    method, network = simulations.method("fedcp", lam=3.0), simulation.model
    batches = [simulation.data.batch(rows) for rows in simulation.data.train]
    state = method.setup(everyone(simulation, 0))
    shared, quiet = state.server.theta, torch.zeros(network.width).double()
    heads = [row(state.clients.head, 0)] * 2
    for number in range(3):
        clients = [Reference(network, shared, head) for head in heads]
        for client, batch in zip(clients, batches, strict=True):
            client.learn(batch, 2, 0.2, 0.5, 3.0)
        trained = [Tree(client.names()).map(torch.Tensor.detach) for client in clients]
        heads = [theta.part("head") for theta in trained]
        uploads = [
            theta | {name: (t + shared[name]) / 2 for name, t in theta.part("head").items()} for theta in trained
        ]
        before, shared = shared, Tree((name, p * t + (1 - p) * uploads[1][name]) for name, t in uploads[0].items())
        with torch.no_grad():
            state = one_round(method, simulation, number, state)[1]
            received = method.received(everyone(simulation, number + 1, state), state)
        all_near(state.server.theta, shared, 1e-10)
        for i, batch in enumerate(batches):
            all_near(row(state.clients.head, i), heads[i], 1e-10)
            for theta, server, models in ((trained[i], before, state.trained), (shared, shared, received)):
                client = Reference(network, theta | server.part("head"), heads[i])
                context = LossContext(network, Tree(theta=server), Tree(), None)
                with torch.no_grad():
                    near(method.predict(row(models, i), batch.x, context), client.both(batch.x, quiet)[0], 1e-10)


def test_cross_entropy_leaves_the_vector_of_the_gate_alone():
    """The rows of a head's slope add up to 0, so that steps of SGD leave their sum where it was; Adam's do not."""
    training = {"rounds": 2, "lr": 0.1, "dtype": "float64"}
    simulation = simulations.ragged(3, **training)
    start, weight = simulation.initial["head.weight"], final("fedcp", simulation).clients.head["head.weight"]
    assert (weight - start).abs().amax(dim=(1, 2)).min() > 1e-3
    near(weight.sum(dim=1), start.sum(dim=0).double().expand(3, -1))
    adam = final("fedcp", simulations.ragged(3, **training, optimizer="adam")).clients.head["head.weight"]
    assert (adam.sum(dim=1) - start.sum(dim=0)).abs().max() > 1e-2


def test_idle_clients_keep_their_heads_and_receive_the_rest():
    simulation = simulations.ragged(participation=0.4, rounds=2, dtype="float64")
    method, state = simulations.method("fedcp"), final("fedcp", simulation)
    drawn_clients = {client for number in range(2) for client in participants(simulation, number).tolist()}
    idle = [client for client in range(5) if client not in drawn_clients]
    assert idle
    weight, start = state.clients.head["head.weight"], simulation.initial["head.weight"]
    with torch.no_grad():
        received = method.received(everyone(simulation, 2, state), state)
    shared = Tree((name, t) for name, t in state.server.theta.items() if not name.startswith("head."))
    for client in range(5):
        assert torch.equal(weight[client], start) == (client in idle)
        theta = row(received, client)
        all_near(theta, shared | row(state.clients.head, client), 0)


def test_an_open_gate_and_no_distance_is_fedper():
    """A gate that gives everything to the client's head, and a server's head that is 0."""
    simulation = simulations.ragged(3, rounds=1, lr=0.1, dtype="float64")
    method, fedper = simulations.method("fedcp", lam=0.0), simulations.method("fedper")
    state = method.setup(everyone(simulation, 0))
    theta, k = state.server.theta, simulation.model.width
    shift = torch.cat([torch.full((k,), 1000.0), torch.zeros(k)]).double()
    fixed = {"gate.scale": 0 * theta["gate.scale"], "gate.shift": shift} | theta.part("head").map(torch.zeros_like)
    with torch.no_grad():
        after = one_round(method, simulation, 0, state.update(server={"theta": theta | fixed}))[1]
        expected = one_round(fedper, simulation, 0, fedper.setup(everyone(simulation, 0)))[1]
    all_near(after.server.theta.part("extractor"), expected.server.theta)
    all_near(after.clients.head, expected.clients.theta.part("head"))


def test_the_uploaded_head_is_half_the_servers():
    """Without a step, clients of 7, 10 and 13 images with the heads π + 0, π + 1 and π + 2."""
    simulation = simulations.ragged(3, rounds=1, local_epochs=0, dtype="float64")
    method = simulations.method("fedcp")
    state = method.setup(everyone(simulation, 0))
    head = state.clients.head.map(lambda t: t + torch.arange(3).double().reshape(-1, *[1] * (t.dim() - 1)))
    with torch.no_grad():
        after = one_round(method, simulation, 0, state.update(clients={"head": head}))[1]
    all_near(after.clients.head, head, 0)
    moved = {name: t + (0.6 if name.startswith("head.") else 0) for name, t in state.server.theta.items()}
    all_near(after.server.theta, moved)
    assert method.global_model(after) is None


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


def test_the_gate_at_its_start():
    simulation = simulations.ragged(2, dtype="float64")
    theta, k = simulations.method("fedcp").setup(everyone(simulation, 0)).server.theta, simulation.model.width
    for kind, shape in (("weight", (2 * k, k)), ("bias", (2 * k,))):
        t = theta[f"gate.{kind}"]
        assert t.shape == shape and t.dtype == torch.float64
        assert 0.9 / k**0.5 < t.abs().max() <= 1 / k**0.5 and t.min() < 0 < t.max()
    assert (theta["gate.scale"] == 1).all() and not theta["gate.shift"].any()


def test_the_network_and_the_gate_travel():
    simulation = simulations.ragged(3, rounds=2)
    k, theta = simulation.model.width, sum(t.numel() for t in simulation.initial.values())
    numbers = theta + 2 * k * k + 2 * k + 2 * 2 * k
    rows = federate(simulations.method("fedcp"), simulation).progress.record.rows
    sent = [value for _, what, _, values in rows if what.startswith("bytes") for value in values]
    assert len(sent) == 12 and set(sent) == {4 * numbers}


def test_the_default_weight_is_the_authors_at_their_rate():
    weights = []

    class Noting(FedCP):
        def loss(self, theta, batch, at):
            weights.append(at.server.lam)
            return super().loss(theta, batch, at)

    for lr in (0.005, 0.05):
        federate(Noting(), simulations.ragged(2, rounds=1, lr=lr))
    assert {round(weight, 12) for weight in weights} == {5.0, 0.5}
