"""Numbers worked out without the engine: printed examples, rounds by hand, FedCoSR once more in plain torch."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear, relu

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.rounds import federate
from fedgrid.methods.common.prototypes import aggregate, class_means, info_nce
from fedgrid.models.base import Model
from fedgrid.randomness import generator
from fedgrid.suite import simulations
from fedgrid.tree import Tree, leaves, row

ALL = torch.tensor([True, True])


def near(ours, expected, tolerance=1e-6):
    torch.testing.assert_close(ours.double(), torch.as_tensor(expected).double(), rtol=0, atol=tolerance)


# FedCoSR's worked example: G = [(1,0),(0.6,0.8)], temperature 0.1


def single(z, label, prototypes, known=ALL):
    return info_nce(torch.tensor([z]), torch.tensor([label]), torch.tensor(prototypes), known, 0.1)


def test_contrast_of_single_samples():
    centres = [[1.0, 0.0], [0.6, 0.8]]
    samples = (([2.0, 0.0], 0), ([1.0, 1.0], 0), ([0.0, 3.0], 1))
    for (z, label), expected in zip(samples, (0.018150, 2.885852, 0.000335), strict=True):
        total, counted = single(z, label, centres)
        near(total, expected, 2e-6)
        assert counted == 1
    near(single([1.0, 0.0], 0, [[1.0, 0.0], [0.0, 1.0]])[0], math.log1p(math.exp(-10)), 1e-6)


def test_contrast_of_a_batch_and_the_trust_it_gives():
    z = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    total, counted = info_nce(z, torch.tensor([0, 0, 1]), torch.tensor([[1.0, 0.0], [0.6, 0.8]]), ALL, 0.1)
    near(total / counted, 0.968112, 2e-6)
    near(torch.exp(-0.8 * total / counted), 0.460939, 2e-6)


def test_contrast_masks_unknown_classes():
    only_first = torch.tensor([True, False])
    total, counted = single([1.0, 1.0], 0, [[1.0, 0.0], [0.0, 0.0]], only_first)
    assert (total.item(), counted.item()) == (0.0, 1)  # no negative
    total, counted = single([1.0, 1.0], 1, [[1.0, 0.0], [0.0, 0.0]], only_first)
    assert (total.item(), counted.item()) == (0.0, 0)  # no positive
    z = torch.tensor([[1.0, 1.0]], requires_grad=True)
    info_nce(z, torch.tensor([1]), torch.zeros(2, 2), ~ALL, 0.1)[0].backward()
    assert z.grad.eq(0).all()


def test_equal_prototypes_contrast_with_log_of_the_classes_and_no_gradient():
    z = torch.tensor([[1.0, 2.0]], requires_grad=True)
    total, _ = info_nce(z, torch.tensor([1]), torch.tensor([[3.0, 1.0]] * 4), torch.ones(4, dtype=torch.bool), 0.1)
    total.backward()
    near(total, math.log(4), 1e-6)
    near(z.grad, torch.zeros(1, 2), 1e-6)


@pytest.mark.parametrize(
    ("contrasted", "expected"),
    [(0.1, 0.923116), (0.5, 0.670320), (math.log(2), 0.574349), (1, 0.449329), (math.log(10), 0.158489), (5, 0.018316)],
)
def test_trust(contrasted, expected):
    simulation = simulations.ragged(clients=1)
    state = federate(simulations.method("fedcosr", gamma=0.8), simulation).progress.state
    measured = state.update(clients={"regularity": torch.tensor([float(contrasted)])})
    near(simulations.method("fedcosr", gamma=0.8).trust(everyone(simulation, 3, measured), measured), [expected])


def test_blend():
    own, shared = Tree(a=torch.tensor([[1.0, -2.0, 0.5]])), Tree(a=torch.tensor([[0.0, 1.0, 0.5]]))
    tau = torch.tensor([0.460939])
    near((tau * own + (1 - tau) * shared).a, [[0.460939, -0.382816, 0.500000]], 2e-6)


def test_class_means_and_their_aggregate():
    counts = torch.tensor([[30.0, 0.0], [10.0, 0.0]], dtype=torch.float64)
    sums = torch.tensor([[[30.0, 0.0], [0.0, 0.0]], [[30.0, 40.0], [0.0, 0.0]]])
    means = class_means(sums, counts)
    near(means[:, 0], [[1.0, 0.0], [3.0, 4.0]])
    previous = torch.tensor([[9.0, 9.0], [7.0, 8.0]])
    prototypes, known = aggregate(means, counts, previous, torch.tensor([False, True]))
    near(prototypes, [[1.5, 1.0], [7.0, 8.0]])  # the second class keeps its value
    assert known.tolist() == [True, True]
    assert aggregate(means, counts, previous, ~ALL)[1].tolist() == [True, False]


# Rounds by hand: softmax regression, full batches, float64


class Flat(Model):
    """Softmax regression: the representation is the image."""

    features: int = 64

    def extractor(self, shape):
        return nn.Flatten()


TRAIN = [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9], [10, 11, 13, 15, 17]]


def flat_world(**training):
    made = simulations.simulation(
        [simulations.draw([i % 10 for i in labels], start=labels[0]) for labels in TRAIN], **training
    )
    return dataclasses.replace(made, model=Flat().network((8, 8, 1), 10))


class ByHand:
    """Gradient descent on a client's mean cross entropy, written out."""

    def __init__(self, simulation):
        self.data, self.lr = simulation.data, simulation.training.lr
        self.start = [
            simulation.model.initial(simulation.seed)[f"head.{name}"].double().numpy() for name in ("weight", "bias")
        ]
        self.sizes = np.array([len(index) for index in simulation.data.train])

    def gradient(self, client, theta):
        weight, bias = theta
        index = self.data.train[client]
        x = ((self.data.images[index].double() - self.data.centre) / self.data.spread).reshape(len(index), -1).numpy()
        logits = x @ weight.T + bias
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(x)), self.data.labels[index].numpy()] -= 1
        return [p.T @ x / len(x), p.mean(axis=0)]

    def descend(self, client, theta, steps, pull=0.0, anchor=None):
        anchor = anchor or theta
        for _ in range(steps):
            slope = self.gradient(client, theta)
            slope = [g + pull * (t - a) for g, t, a in zip(slope, theta, anchor, strict=True)]
            theta = [t - self.lr * g for t, g in zip(theta, slope, strict=True)]
        return theta

    def average(self, thetas):
        share = self.sizes / self.sizes.sum()
        return [sum(p * theta[i] for p, theta in zip(share, thetas, strict=True)) for i in range(2)]


FULL = {"batch_size": 512, "local_epochs": 3, "lr": 0.1}


def agree(theta, weight_and_bias):
    for name, expected in zip(("weight", "bias"), weight_and_bias, strict=True):
        np.testing.assert_allclose(theta[f"head.{name}"].numpy(), expected, rtol=0, atol=1e-5)


def changed(by_hand, theta):
    return np.abs(theta[0] - by_hand.start[0]).max() > 1e-3


def test_a_fedavg_round_by_hand():
    simulation = flat_world(rounds=1, **FULL)
    hand = ByHand(simulation)
    expected = hand.average([hand.descend(i, hand.start, 3) for i in range(3)])
    assert changed(hand, expected)
    agree(simulations.run("fedavg", simulation).progress.state.server.theta, expected)


def test_a_fedprox_round_by_hand():
    simulation = flat_world(rounds=1, **FULL)
    hand = ByHand(simulation)
    expected = hand.average([hand.descend(i, hand.start, 3, pull=2.0) for i in range(3)])
    plain = hand.average([hand.descend(i, hand.start, 3) for i in range(3)])
    assert np.abs(expected[0] - plain[0]).max() > 1e-3
    agree(simulations.run("fedprox", simulation, mu=2.0).progress.state.server.theta, expected)


def test_two_ditto_rounds_by_hand():
    simulation = flat_world(rounds=2, **FULL)
    hand = ByHand(simulation)
    w, own = hand.start, [hand.start] * 3
    for _ in range(2):
        own = [hand.descend(i, own[i], 2, pull=1.5, anchor=w) for i in range(3)]
        w = hand.average([hand.descend(i, w, 3) for i in range(3)])
    state = simulations.run("ditto", simulation, lam=1.5, personal_epochs=2).progress.state
    agree(state.server.theta, w)
    for i in range(3):
        agree(row(state.clients.personal, i), own[i])


def test_participants_alone_are_averaged():
    simulation = flat_world(rounds=1, participation=0.67, **FULL)
    hand = ByHand(simulation)
    drawn = sorted(generator("participation", 0, 0).permutation(3)[:2])
    hand.sizes = hand.sizes[drawn]
    agree(
        simulations.run("fedavg", simulation).progress.state.server.theta,
        hand.average([hand.descend(i, hand.start, 3) for i in drawn]),
    )


# FedCoSR from its specification, one client after the other


class PlainFedCoSR:
    """FedCoSR for a perceptron, with lists and dictionaries, in float64."""

    def __init__(self, simulation, alpha, gamma, temperature):
        self.simulation, self.alpha, self.gamma, self.temperature = simulation, alpha, gamma, temperature
        start = {key: t.double() for key, t in simulation.model.initial(simulation.seed).items()}
        clients = range(simulation.data.clients)
        self.theta = [{key: t.clone() for key, t in start.items()} for _ in clients]
        self.phi = {key: t.clone() for key, t in start.items() if key.startswith("extractor")}
        self.centres, self.last = {}, [None for _ in clients]
        self.trusts = []

    def images(self, index):
        data = self.simulation.data
        return (data.images[index].double() - data.centre) / data.spread, data.labels[index]

    def features(self, theta, x):
        hidden = relu(linear(x.flatten(1), theta["extractor.1.weight"], theta["extractor.1.bias"]))
        return relu(linear(hidden, theta["extractor.3.weight"], theta["extractor.3.bias"]))

    def contrasts(self, z, labels):
        """The contrast of every sample whose class has a centre."""
        values = []
        for vector, label in zip(z, labels.tolist(), strict=True):
            if label in self.centres:
                at = {c: torch.cosine_similarity(vector, g, dim=0) / self.temperature for c, g in self.centres.items()}
                values.append(torch.logsumexp(torch.stack(list(at.values())), dim=0) - at[label])
        return values

    def blended(self, client):
        """Eqs. 7-9; before the first training loss is known it is measured with the client's own model."""
        theta = self.theta[client]
        if self.last[client] is None:
            x, y = self.images(self.simulation.data.train[client])
            with torch.no_grad():
                values = self.contrasts(self.features(theta, x), y)
            trust = math.exp(-self.gamma * float(torch.stack(values).mean())) if values else 1.0
        else:
            trust = math.exp(-self.gamma * self.last[client])
        self.trusts.append(trust)
        return {key: trust * t + (1 - trust) * self.phi[key] if key in self.phi else t for key, t in theta.items()}

    def trained(self, client, theta, round_):
        """Eqs. 10-15 for all epochs; the mean contrast of the last epoch is kept."""
        training, index = self.simulation.training, self.simulation.data.train[client]
        theta = {key: t.clone().requires_grad_() for key, t in theta.items()}
        for epoch in range(training.local_epochs):
            order = generator("batches", self.simulation.seed, client, round_, epoch, "main").permutation(len(index))
            seen = []
            for first in range(0, len(order), training.batch_size):
                x, y = self.images(index[torch.from_numpy(order[first : first + training.batch_size])])
                z = self.features(theta, x)
                values = self.contrasts(z, y)
                loss = cross_entropy(linear(z, theta["head.weight"], theta["head.bias"]), y)
                loss = loss + self.alpha * torch.stack(values).mean() if values else loss
                slopes = torch.autograd.grad(loss, list(theta.values()))
                theta = {
                    key: (t - training.lr * slope).detach().requires_grad_()
                    for (key, t), slope in zip(theta.items(), slopes, strict=True)
                }
                seen += [value.item() for value in values]
        self.last[client] = sum(seen) / len(seen) if seen else None
        return {key: t.detach() for key, t in theta.items()}

    def round(self, round_):
        clients = participants(self.simulation, round_).tolist()
        for i in clients:
            self.theta[i] = self.trained(i, self.blended(i), round_)
        size = {i: len(self.simulation.data.train[i]) for i in clients}
        total = sum(size.values())
        self.phi = {key: sum(size[i] / total * self.theta[i][key] for i in clients) for key in self.phi}
        together = {}
        for i in clients:
            x, y = self.images(self.simulation.data.train[i])
            for vector, label in zip(self.features(self.theta[i], x), y.tolist(), strict=True):
                together.setdefault(label, []).append(vector)
        self.centres |= {label: torch.stack(vectors).mean(dim=0) for label, vectors in together.items()}


def mixed_world(**training):
    """Five clients with overlapping classes, so that some of a client's classes are known before others."""
    labels = [[0, 0, 1, 1, 2, 0, 1], [1, 2, 2, 3, 3, 3], [3, 4, 4, 5, 0, 5, 5, 4], [6, 6, 7, 0, 1], [7, 8, 8, 2, 6, 7]]
    return simulations.simulation(
        [simulations.draw(wanted, start=100 * i) for i, wanted in enumerate(labels)], **training
    )


@pytest.mark.parametrize(("rounds", "participation"), [(1, 1.0), (2, 1.0), (3, 1.0), (6, 0.4)])
def test_fedcosr_is_its_specification(rounds, participation):
    settings = {"alpha": 0.7, "gamma": 0.8, "temperature": 0.3}
    simulation = mixed_world(rounds=rounds, local_epochs=2, lr=0.03, participation=participation)
    plain = PlainFedCoSR(simulation, **settings)
    for round_ in range(rounds):
        plain.round(round_)
    method = simulations.method("fedcosr", **settings)
    progress = federate(method, simulation).progress
    state = progress.state
    own = row_by_row(state.clients.theta, 5)
    for i in range(5):
        for key in own[i]:
            near(own[i][key], plain.theta[i][key], 1e-5)
    for key, t in state.server.theta.items():
        near(t, plain.phi[key], 1e-5)
    assert state.server.known.nonzero().flatten().tolist() == sorted(plain.centres)
    for label, centre in plain.centres.items():
        near(state.server.prototypes[label], centre, 1e-5)
    if rounds == 1:
        assert plain.last == [None] * 5
    trusts = [value for _, name, _, values in progress.record.rows for value in values if name == "trust"]
    near(torch.tensor(trusts), plain.trusts, 1e-5)
    near(state.clients.regularity.nan_to_num(-1), [-1.0 if last is None else last for last in plain.last], 1e-5)


def row_by_row(stack, clients):
    return [row(stack, i) for i in range(clients)]


def test_the_personal_model_of_fedcosr_is_blended_on_receiving():
    """Evaluated after the first round: the contrast is that of the client's own model and the new class means."""
    simulation = simulations.ragged(rounds=1, lr=0.1)
    plain = PlainFedCoSR(simulation, 1.0, 0.8, 0.1)
    plain.round(0)
    method = simulations.method("fedcosr")
    state = federate(method, simulation).progress.state
    with torch.no_grad():
        own = method.used(everyone(simulation, 1, state), state)
    for i in range(5):
        for key, expected in plain.blended(i).items():
            near(own[key][i], expected, 1e-5)


# Traffic


def numbers(tree):
    return sum(t.numel() for t in leaves(tree))


def traffic(name, simulation, **settings):
    rows = simulations.run(name, simulation, **settings).progress.record.rows
    actual = {(round_, metric): dict(zip(clients, values, strict=True)) for round_, metric, clients, values in rows}
    return {
        way: [actual[t, f"bytes_{way}"] for t in range(1, simulation.training.rounds + 1)] for way in ("up", "down")
    }


SHARED = {"fedavg": "", "fedavg_ft": "", "fedprox": "", "ditto": "", "fedper": "extractor"}
"The part of θ that travels both ways, by its name's start."


@pytest.mark.parametrize(("name", "what"), SHARED.items())
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_bytes_of_models(name, what, participation):
    simulation = simulations.ragged(participation=participation)
    theta = simulation.model.initial(0)
    expected = 4 * numbers(theta.part(what) if what else theta)
    for per_round in traffic(name, simulation).values():
        assert all(value == expected for clients in per_round for value in clients.values())
        assert all(len(clients) == (5 if participation == 1 else 2) for clients in per_round)


def test_local_exchanges_nothing():
    assert all(
        value == 0 for rounds in traffic("local", simulations.ragged()).values() for c in rounds for value in c.values()
    )


@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_bytes_of_fedcosr(separate, participation):
    simulation = simulations.ragged(participation=participation, rounds=4)
    theta = simulation.model.initial(0)
    model = numbers(theta.part("extractor") if separate else theta)
    classes = [set(simulation.data.labels[index].tolist()) for index in simulation.data.train]
    counted, known = traffic("fedcosr", simulation, separate=separate), set()
    for up, down in zip(counted["up"], counted["down"], strict=True):
        assert set(up) == set(down)
        assert up == {i: 4 * (model + len(classes[i]) * 8) for i in up}
        assert down == {i: 4 * (model + len(known) * 8) for i in down}
        known |= set().union(*(classes[i] for i in up))
