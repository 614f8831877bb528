"""GPFL: valve and loss by hand, rounds against torch's own layers and optimiser, what stays and what travels."""

import numpy as np
import pytest
import torch
from nearness import all_near, near
from torch import nn
from torch.nn.functional import cosine_similarity, cross_entropy

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.rounds import federate
from fedgrid.methods.gpfl import EMBEDDINGS, modulation, valve
from fedgrid.models.base import Network
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final, one_round
from fedgrid.tree import Tree, row

KINDS = ("weight", "bias", "scale", "shift")


class Plane(Network):
    """Representations of two numbers are the images themselves; three classes."""

    def __init__(self):
        super().__init__({"extractor": nn.Flatten(), "head": nn.Linear(2, 3)}, 2, 3)


def doubles(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def planar(**changes):
    """θ of the plane, all entries of which differ."""
    entries = {
        "head.weight": doubles([1, -1], [0.5, 2], [-1, 0.3]),
        "head.bias": doubles(0.1, -0.2, 0.3),
        EMBEDDINGS: doubles([1, 2], [-1, 0.5], [3, -2]),
    }
    for number, name in enumerate(("gamma", "beta")):
        numbers = doubles([0.3, -0.7], [1.1, 0.4]) - number
        entries |= dict(
            zip(
                (f"guide.{name}.{kind}" for kind in KINDS),
                (numbers, *numbers[:, :1].T, numbers[0], numbers[1]),
                strict=True,
            )
        )
    return Tree(entries) | changes


def points(*rows, labels=None):
    """Images that are points of the plane."""
    labels = torch.zeros(len(rows), dtype=torch.long) if labels is None else torch.tensor(labels)
    return Batch(doubles(*rows).reshape(-1, 1, 1, 2), labels)


RECEIVED = doubles([0.5, 1], [2, -1], [-0.5, 3])
"Embeddings of the server, other than the client's."
CONTEXT = LossContext(Plane(), Tree(theta=Tree({EMBEDDINGS: RECEIVED})), Tree(condition=doubles(0.4, 1.3)), None)


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


def by_loops(theta, batch, condition, generic_condition, frozen, lam, mu):
    """The loss in numpy, image by image."""
    t = {name: value.numpy() for name, value in theta.items()}

    def modulated(name, u):
        weight, bias, scale, shift = (t[f"guide.{name}.{kind}"] for kind in KINDS)
        h = [max(sum(w * x for w, x in zip(line, u, strict=True)) + b, 0) for line, b in zip(weight, bias, strict=True)]
        return (h - np.mean(h)) / np.sqrt(np.var(h) + 1e-5) * scale + shift

    def passed(z, u):
        return np.maximum((1 + modulated("gamma", u)) * z + modulated("beta", u), 0)

    def entropy(logits, label):
        return np.log(sum(np.exp(logits))) - logits[label]

    total = 0
    for z, label in zip(batch.x.flatten(1).numpy(), batch.y.tolist(), strict=True):
        personal, generic = passed(z, condition), passed(z, generic_condition)
        cosines = [generic @ e / np.linalg.norm(generic) / np.linalg.norm(e) for e in t[EMBEDDINGS]]
        total += entropy(t["head.weight"] @ personal + t["head.bias"], label) + entropy(np.array(cosines), label)
        total += lam * np.sqrt(((generic - frozen[label]) ** 2).sum())
    decayed = sum((value**2).sum() for name, value in t.items() if name.startswith("guide."))
    return total / len(batch.y) + mu / 2 * decayed


@pytest.mark.parametrize(("lam", "mu"), [(0.0, 0.0), (0.7, 0.0), (0.7, 0.2)])
def test_the_loss_of_a_batch(lam, mu):
    batch = points([2, 1], [0.5, 3], [1, 2], labels=[0, 2, 2])
    mean = RECEIVED.numpy().sum(axis=0) / 3
    expected = by_loops(planar(), batch, [0.4, 1.3], mean, RECEIVED.numpy(), lam, mu)
    near(loss(planar(), batch, lam=lam, mu=mu), expected)
    assert expected > 0


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


def test_only_embeddings_and_valve_decay():
    batch, theta = points([2, 1], [1, 3], labels=[0, 1]), planar()
    decayed, free = (torch.func.grad(loss)(theta, batch, mu=mu) for mu in (0.3, 0.0))
    expected = {name: 0.3 * t if name.startswith("guide.") else 0 * t for name, t in theta.items()}
    all_near(decayed - free, expected)


def test_a_closed_valve_has_finite_slopes():
    """All features 0: the cosine of nothing is 0, and nothing reaches the features."""
    shut = planar(**{"guide.beta.scale": doubles(0, 0), "guide.beta.shift": doubles(-99, -99)})
    batch = points([2, 1], labels=[1])
    slope, value = torch.func.grad_and_value(loss)(shut, batch, mu=0.0, lam=0.0)
    near(value, cross_entropy(shut["head.bias"], torch.tensor(1)) + np.log(3))
    assert all(t.isfinite().all() for t in slope.values())
    assert not slope["guide.beta.shift"].any()


def test_embeddings_and_valve_at_their_start():
    simulation = simulations.ragged(2, dtype="float64", seed=3)
    theta = simulations.method("gpfl").setup(everyone(simulation, 0)).server.theta
    k, classes = simulation.model.width, simulation.model.classes
    e = theta[EMBEDDINGS]
    assert e.shape == (classes, k) and e.dtype == torch.float64
    assert abs(e.mean()) < 0.4 and 0.7 < e.std() < 1.3
    drawn = [theta[f"guide.{name}.{kind}"] for name in ("gamma", "beta") for kind in ("weight", "bias")]
    assert [t.shape for t in drawn] == [(k, k), (k,)] * 2
    for t in drawn:
        assert t.abs().max() <= 1 / k**0.5 and t.min() < 0 < t.max()
    assert not torch.equal(drawn[0], drawn[2])
    for name in ("gamma", "beta"):
        assert (theta[f"guide.{name}.scale"] == 1).all() and not theta[f"guide.{name}.shift"].any()


# Rounds


class Reference(nn.Module):
    """A client of torch's layers."""

    def __init__(self, network, theta):
        super().__init__()
        k, self.network = network.width, network
        self.extractor = nn.ParameterDict(
            {name.replace(".", "/"): nn.Parameter(t.clone()) for name, t in theta.part("extractor").items()}
        )
        self.head, self.embeddings = nn.Linear(k, network.classes), nn.Embedding(network.classes, k)
        self.gamma, self.beta = (nn.Sequential(nn.Linear(k, k), nn.ReLU(), nn.LayerNorm(k)) for _ in range(2))
        self.double()
        with torch.no_grad():
            for name, parameter in self.names().items():
                parameter.copy_(theta[name])

    def names(self):
        """Parameters by the names of θ."""
        names = {name.replace("/", "."): t for name, t in self.extractor.items()}
        names |= {"head.weight": self.head.weight, "head.bias": self.head.bias, EMBEDDINGS: self.embeddings.weight}
        for name, (linear, _, norm) in (("gamma", self.gamma), ("beta", self.beta)):
            parameters = (linear.weight, linear.bias, norm.weight, norm.bias)
            names |= dict(zip((f"guide.{name}.{kind}" for kind in KINDS), parameters, strict=True))
        return names

    def both(self, x, condition, generic_condition):
        """Logits, and generic features."""
        z = self.network.features({name.replace("/", "."): t for name, t in self.extractor.items()}, x)
        personal, generic = (torch.relu(z + self.gamma(u) * z + self.beta(u)) for u in (condition, generic_condition))
        return self.head(personal), generic

    def learn(self, batch, condition, epochs, lr, momentum, lam, mu):
        """Steps on one batch, with a weight decay of two of four parts."""
        frozen = self.embeddings.weight.detach().clone()
        generic_condition = frozen.mean(dim=0)
        guide = [t for part in (self.embeddings, self.gamma, self.beta) for t in part.parameters()]
        rest = [*self.extractor.parameters(), *self.head.parameters()]
        groups = [{"params": guide, "weight_decay": mu}, {"params": rest}]
        optimizer = torch.optim.SGD(groups, lr=lr, momentum=momentum)
        for _ in range(epochs):
            logits, generic = self.both(batch.x, condition, generic_condition)
            cosines = cosine_similarity(generic.unsqueeze(1), self.embeddings.weight.unsqueeze(0), dim=2)
            distances = [(v - frozen[c]).square().sum().sqrt() for v, c in zip(generic, batch.y, strict=True)]
            value = cross_entropy(logits, batch.y) + cross_entropy(cosines, batch.y)
            optimizer.zero_grad()
            (value + lam * sum(distances) / len(distances)).backward()
            optimizer.step()


@pytest.mark.parametrize("labels", [[3, 4, 4], [3]], ids=["three images", "one image"])
def test_three_rounds_of_two_clients(labels):
    """Unequal clients with one batch and two steps a round, momentum and a weight decay of parts."""
    settings = {"lam": 0.3, "mu": 0.2}
    index = [simulations.draw([0, 0, 1, 2, 3]), simulations.draw(labels, start=50)]
    p = 5 / (5 + len(labels))
    training = {"rounds": 3, "local_epochs": 2, "batch_size": 9, "lr": 0.1, "momentum": 0.5, "dtype": "float64"}
    simulation = simulations.simulation(index, **training)
    method, network = simulations.method("gpfl", **settings), simulation.model
    batches = [simulation.data.batch(rows) for rows in simulation.data.train]
    shares = [torch.bincount(batch.y, minlength=10).double() / len(batch.y) for batch in batches]
    state = method.setup(everyone(simulation, 0))
    shared = state.server.theta
    heads = [row(state.clients.head, 0)] * 2
    for number in range(3):
        clients = [Reference(network, shared | head) for head in heads]
        conditions = [share @ shared[EMBEDDINGS] for share in shares]
        for client, batch, condition in zip(clients, batches, conditions, strict=True):
            client.learn(batch, condition, 2, 0.1, 0.5, **settings)
        trained = [Tree(client.names()).map(torch.Tensor.detach) for client in clients]
        shared = Tree((name, p * t + (1 - p) * trained[1][name]) for name, t in trained[0].items() if name in shared)
        heads = [theta.part("head") for theta in trained]
        with torch.no_grad():
            at = everyone(simulation, number, state)
            state = one_round(method, simulation, number, state)[1]
            received = method.received(everyone(simulation, number + 1, state), state)
        all_near(state.server.theta, shared, 1e-11)
        for i, (client, batch) in enumerate(zip(clients, batches, strict=True)):
            all_near(row(state.clients.head, i), heads[i], 1e-11)
            context = LossContext(network, at.state.server, Tree(), None)
            with torch.no_grad():
                logits = client.both(batch.x, conditions[i], conditions[i])[0]
                near(method.predict(row(state.trained, i), batch.x, context), logits, 1e-11)
                next_condition = shares[i] @ shared[EMBEDDINGS]
                logits = Reference(network, shared | heads[i]).both(batch.x, next_condition, next_condition)[0]
                near(method.predict(row(received, i), batch.x, context), logits, 1e-11)


def test_idle_clients_keep_their_heads_and_receive_the_rest():
    simulation = simulations.ragged(participation=0.4, rounds=2, dtype="float64")
    method = simulations.method("gpfl")
    state = final("gpfl", simulation)
    drawn = {client for number in range(2) for client in participants(simulation, number).tolist()}
    idle = [client for client in range(5) if client not in drawn]
    assert idle
    weight, start = state.clients.head["head.weight"], simulation.initial["head.weight"]
    for client in range(5):
        assert torch.equal(weight[client], start) == (client in idle)
    fed = everyone(simulation, 2, state)
    with torch.no_grad():
        received = method.received(fed, state)
    for client in range(5):
        theta = row(received, client)
        all_near(Tree((name, theta[name]) for name in state.server.theta), state.server.theta, 0)
        all_near(theta.part("head"), row(state.clients.head, client), 0)


def test_heads_never_reach_others():
    """Clients with different heads; without a step the server's part and all heads stay."""
    simulation = simulations.ragged(rounds=1, local_epochs=0, dtype="float64")
    method = simulations.method("gpfl")
    state = method.setup(everyone(simulation, 0))
    head = state.clients.head.map(lambda t: t + torch.arange(5).double().reshape(-1, *[1] * (t.dim() - 1)))
    with torch.no_grad():
        after = one_round(method, simulation, 0, state.update(clients={"head": head}))[1]
    all_near(after.clients.head, head, 0)
    all_near(after.server.theta, state.server.theta)
    assert not after.server.theta.part("head") and method.global_model(after) is None


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
    phi = sum(t.numel() for name, t in simulation.initial.items() if name.startswith("extractor."))
    numbers = phi + classes * k + 2 * (k * k + k) + 4 * k
    rows = federate(simulations.method("gpfl"), simulation).progress.record.rows
    sent = [(what, value) for _, what, _, values in rows if what.startswith("bytes") for value in values]
    assert len(sent) == 12 and {value for _, value in sent} == {4 * numbers}
