"""Known answers of the classic methods: rounds worked out in numpy, gradient by gradient, without the engine.

Clients of unequal size train a network of two linear layers, logits = (x Aᵀ + a) Bᵀ + b, whose loss here is
½ mean ‖logits − onehot(y)‖² in place of the cross entropy. θ is one vector of 19 numbers, φ = (A, a) and π = (B, b).
The names are those of the papers: w is the server's model, p_i a client's share of the images, b a batch.
"""

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.task import LocalTask
from fedgrid.engine.rounds import federate
from fedgrid.models.base import Model
from fedgrid.settings import Training
from fedgrid.suite import simulations
from fedgrid.tree import leaves

LABELS = np.array([0, 1, 1, 2, 0, 2, 2, 1, 0, 0, 1, 2])
X = np.random.default_rng(5).normal(size=(len(LABELS), 4)) + np.eye(3, 4)[LABELS]
THETA, NONE, PHI, PI, LAST = slice(None), slice(0, 0), slice(0, 10), slice(10, None), slice(16, None)
ETA = 0.1

AMP = {
    "small step": {"alpha": 0.3, "lam": 0.15},
    "capped": {"alpha": 4.0, "lam": 2.0},
    "heuristic": {"alpha": 0.3, "lam": 0.15, "heuristic": True, "sharpness": 3.0, "own": 0.4},
}
ALA = {
    "few passes": {"max_passes": 3},
    "until it settles": {"eta": 1.0, "threshold": 3e-4},
    "everything": {"max_passes": 12, "layer_idx": 0, "start": 0.5},
    "the last bias, settled at once": {"layer_idx": 1, "threshold": 0.1},
}


class Linear(Model):
    """The representation is a linear function of the image."""

    def extractor(self, shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(4, self.features))


@pytest.fixture(autouse=True)
def half_squares(monkeypatch):
    """Every method's own loss is built on the quadratic one; MOON alone takes its cross entropy elsewhere."""

    def loss(logits, labels):
        return (logits - torch.eye(3, dtype=logits.dtype)[labels]).square().sum() / (2 * len(labels))

    monkeypatch.setattr("fedgrid.engine.federation.method.cross_entropy", loss)


def unpacked(theta):
    return theta[:8].reshape(2, 4), theta[8:10], theta[10:16].reshape(3, 2), theta[LAST]


def features(theta, b):
    weight, bias, _, _ = unpacked(theta)
    return X[b] @ weight.T + bias


def logits(theta, b):
    _, _, weight, bias = unpacked(theta)
    return features(theta, b) @ weight.T + bias


def loss(theta, b):
    return ((logits(theta, b) - np.eye(3)[LABELS[b]]) ** 2).sum() / (2 * len(b))


def g(theta, b):
    """∇ℓ_b(θ)."""
    residual = (logits(theta, b) - np.eye(3)[LABELS[b]]) / len(b)
    back = residual @ unpacked(theta)[2]
    own = back.T @ X[b], back.sum(axis=0), residual.T @ features(theta, b), residual.sum(axis=0)
    return np.concatenate([part.ravel() for part in own])


def proximal(weight, anchor):
    """∇ of ℓ_b(θ) + (weight/2)‖θ − anchor‖²."""
    return lambda theta, b: g(theta, b) + weight * (theta - anchor)


def sgd(theta, batches, slope=g, eta=ETA, keys=THETA, momentum=0.0):
    """LocalSGD: θ ← θ − η·slope(θ), on `keys` alone."""
    theta, speed = theta.copy(), 0.0
    for b in batches:
        speed = momentum * speed + slope(theta, b)[keys]
        theta[keys] -= eta * speed
    return theta


class Clients:
    """Clients with the next images each, and what the formulas need of them."""

    def __init__(self, *sizes, **training):
        self.ids, self.p, ends = range(len(sizes)), np.array(sizes) / sum(sizes), np.cumsum(sizes)
        train = [torch.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        images, labels = torch.from_numpy(X).reshape(-1, 1, 2, 2), torch.from_numpy(LABELS)
        one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
        data = ClientData(images, labels, train, train, 3, 0 * one, one)
        usual = {"rounds": 2, "local_epochs": 2, "batch_size": 2, "lr": ETA, "dtype": "float64"}
        network = Linear(features=2).network((2, 2, 1), 3)
        self.simulation = Simulation(data, network, Training(**usual | training), Loop(), 0, torch.device("cpu"))
        self.start = np.concatenate([t.double().numpy().ravel() for t in leaves(network.initial(0))])
        self.rounds = range(self.simulation.training.rounds)

    def everywhere(self, theta):
        return np.tile(theta, (len(self.ids), 1))

    def batches(self, i, t, epochs=None, **order):
        """The batches of client i in round t, as indices of images."""
        simulation, size = self.simulation, self.simulation.training.batch_size
        task = LocalTask(
            simulation.data, simulation.data.train, simulation.model, size, simulation.seed, t, [i], {}, {}, {}, **order
        )
        epochs = range(simulation.training.local_epochs if epochs is None else epochs)
        index = simulation.data.train[i]
        return [b.numpy() for e in epochs for b in index[task.order(i, e)].split(size)]

    def drawn(self, t):
        """S_t."""
        return participants(self.simulation, t).tolist()

    def run(self, name, **settings):
        method = simulations.method(name, **settings)
        return method, federate(method, self.simulation).progress.state

    def used(self, method, state):
        """The clients' models on receiving the server's message after the last round."""
        with torch.no_grad():
            return method.used(everyone(self.simulation, len(self.rounds), state), state)


def agree(ours, expected):
    """A tree and a vector, or a stack of trees and one row for each client."""
    rows = np.ndim(expected) - 1
    ours = np.concatenate([t.flatten(rows).numpy() for t in leaves(ours)], axis=rows)
    assert np.abs(expected).max() < 10
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "shared"), [("local", NONE), ("fedper", PHI), ("lg_fedavg", PI), ("fedavg", THETA)])
def test_averages_of_what_is_shared(name, shared):
    """θ_i[shared] ← Σ p_i θ_i[shared], the rest stays with the client; the momentum is new in every round."""
    c = Clients(3, 5, momentum=0.5)
    theta = c.everywhere(c.start)
    for t in c.rounds:
        trained = np.array([sgd(theta[i], c.batches(i, t), momentum=0.5) for i in c.ids])
        theta = trained.copy()
        theta[:, shared] = c.p @ trained[:, shared]
    method, state = c.run(name)
    if name != "local":
        agree(state.server.theta, theta[0, shared])
    if name != "fedavg":
        agree(state.clients.theta, trained)
        agree(c.used(method, state), theta)


@pytest.mark.parametrize(("layers", "keys"), [("all", THETA), ("head", PI)])
def test_fedavg_ft(layers, keys):
    """θ_i = LocalSGD(w) with the batches of the next round."""
    c = Clients(3, 5)
    w = c.start
    for t in c.rounds:
        w = c.p @ [sgd(w, c.batches(i, t)) for i in c.ids]
    method, state = c.run("fedavg_ft", layers=layers, finetune_epochs=3)
    agree(state.server.theta, w)
    agree(c.used(method, state), np.array([sgd(w, c.batches(i, 2, epochs=3), keys=keys) for i in c.ids]))


def test_fedprox():
    """θ ← θ − η·(g_b(θ) + μ(θ − w))."""
    c = Clients(3, 5)
    w = c.start
    for t in c.rounds:
        w = c.p @ [sgd(w, c.batches(i, t), proximal(0.7, w)) for i in c.ids]
    agree(c.run("fedprox", mu=0.7)[1].server.theta, w)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [(3, 5), (3, 5, 4)], ids=["all", "two of three"])
def test_scaffold(sizes, weighted):
    """c_i⁺ = c_i − c + (w − θ)/(K_i·η), η of the round, no momentum; w moves by η_g·mean Δθ, c by ΣΔc_i/N."""
    c = Clients(*sizes, rounds=3, participation=2 / len(sizes), lr_schedule="exponential", momentum=0.9)
    w, variate, own = c.start, np.zeros(19), np.zeros((len(sizes), 19))
    for t in c.rounds:
        eta, ids, before = ETA * 0.99**t, c.drawn(t), own.copy()
        theta = {}
        for i in ids:
            batches, kappa = c.batches(i, t), variate - own[i]
            theta[i] = sgd(w, batches, lambda theta, b, kappa=kappa: g(theta, b) + kappa, eta)
            own[i] += -variate + (w - theta[i]) / (len(batches) * eta)
        share = c.p[ids] / c.p[ids].sum() if weighted else np.ones(2) / 2
        w = w + 0.7 * share @ [theta[i] - w for i in ids]
        variate = variate + (own - before).sum(axis=0) / len(sizes)
    state = c.run("scaffold", global_lr=0.7, weighted=weighted)[1]
    agree(state.server.theta, w)
    agree(state.server.variate, variate)
    agree(state.clients.variate, own)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fednova(momentum):
    """w ← w − (Σ p_i a_i)·Σ p_i (w − θ_i)/a_i; a_i = Σ_{s<τ_i} Σ_{k≤s} ρ^k, step by step."""
    c = Clients(3, 5, momentum=momentum)
    w = c.start
    for t in c.rounds:
        batches = [c.batches(i, t) for i in c.ids]
        a = np.array([sum(momentum**k for s in range(len(b)) for k in range(s + 1)) for b in batches])
        theta = np.array([sgd(w, b, momentum=momentum) for b in batches])
        w = w - (c.p @ a) * (c.p / a) @ (w - theta)
    agree(c.run("fednova")[1].server.theta, w)


def test_moon():
    """Cross entropy + μ·ℓ_con, ℓ_con = −log[e^{s_g/τ}/(e^{s_g/τ} + e^{s_p/τ})], differentiated by complex steps."""
    c, mu, tau = Clients(3, 5, rounds=3), 2.0, 0.5

    def cosine(z, other):
        return (z * other).sum(axis=1) / np.sqrt((z * z).sum(axis=1) * (other * other).sum(axis=1))

    def objective(theta, b, w, previous):
        scores, z = logits(theta, b), features(theta, b)
        cross = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(b)), LABELS[b]]
        to_w, to_previous = (np.exp(cosine(z, features(model, b)) / tau) for model in (w, previous))
        return (cross - mu * np.log(to_w / (to_w + to_previous))).mean()

    def contrastive(*fixed):
        return lambda theta, b: np.array([objective(theta + 1e-30j * e, b, *fixed).imag for e in np.eye(19)]) / 1e-30

    w, previous = c.start, c.everywhere(c.start)
    for t in c.rounds:
        previous = np.array([sgd(w, c.batches(i, t), contrastive(w, previous[i])) for i in c.ids])
        w = c.p @ previous
    state = c.run("moon", mu=mu, temperature=tau)[1]
    agree(state.server.theta, w)
    agree(state.clients.previous, previous)


def test_fedrep():
    """First π_i with φ frozen (rate η_h), then φ_i with π_i frozen and a new momentum; φ ← Σ p_i φ_i."""
    c = Clients(3, 5, momentum=0.5)
    phi, theta = c.start[PHI], c.everywhere(c.start)
    for t in c.rounds:
        theta[:, PHI] = phi
        for i in c.ids:
            fitted = sgd(theta[i], c.batches(i, t, epochs=3, stream="head"), eta=0.2, keys=PI, momentum=0.5)
            theta[i] = sgd(fitted, c.batches(i, t, epochs=1), keys=PHI, momentum=0.5)
        phi = c.p @ theta[:, PHI]
    method, state = c.run("fedrep", head_epochs=3, body_epochs=1, head_lr=0.2)
    agree(state.server.theta, phi)
    agree(state.clients.theta, theta)
    theta[:, PHI] = phi
    agree(c.used(method, state), theta)


@pytest.mark.parametrize("warm", [True, False])
def test_pfedme(warm):
    """K times ϑ ← ϑ − η_p(g_b(ϑ) + λ(ϑ − w_i) + μ₀ϑ), then w_i ← w_i − ηλ(w_i − ϑ); w ← (1 − β)w + βΣ p_i w_i."""
    c, lam, beta, eta_p, eta, decay = Clients(3, 5, local_epochs=1), 3.0, 1.5, 0.08, 0.1, 0.2

    def local(w, batches):
        own = w
        for b in batches:
            own = own if warm else w
            own = sgd(own, [b] * 2, lambda theta, b, w=w: proximal(lam, w)(theta, b) + decay * theta, eta_p)
            w = w - eta * lam * (w - own)
        return w, own

    w = c.start
    for t in c.rounds:
        copies, own = map(np.array, zip(*(local(w, c.batches(i, t)) for i in c.ids), strict=True))
        w = (1 - beta) * w + beta * c.p @ copies
    settings = {"lam": lam, "beta": beta, "inner_steps": 2, "inner_lr": eta_p, "outer_lr": eta, "inner_decay": decay}
    method, state = c.run("pfedme", warm=warm, **settings)
    agree(state.server.theta, w)
    agree(state.clients.personal, own)
    agree(c.used(method, state), own)
    with torch.no_grad():
        trained = method.round(everyone(c.simulation, 2, state), state).trained
    agree(trained, np.array([local(w, c.batches(i, 2))[1] for i in c.ids]))


def test_ditto():
    """v_i ← v_i − η(g_b(v_i) + λ(v_i − w)) with the w that was received, beside FedAvg."""
    c = Clients(3, 5)
    w, v = c.start, c.everywhere(c.start)
    for t in c.rounds:
        v = np.array([sgd(v[i], c.batches(i, t, epochs=3), proximal(0.8, w)) for i in c.ids])
        w = c.p @ [sgd(w, c.batches(i, t)) for i in c.ids]
    state = c.run("ditto", lam=0.8, personal_epochs=3)[1]
    agree(state.server.theta, w)
    agree(state.clients.personal, v)


@pytest.mark.parametrize(("passes", "adaptation", "momentum"), [(None, 1, 0.0), (4, None, 0.0), (None, 1, 0.9)])
@pytest.mark.parametrize("version", ["fo", "hf"])
def test_perfedavg(version, passes, adaptation, momentum):
    """d = g_b′(θ − α·g_b(θ)); FO: θ ← θ − βd; HF: θ ← θ − β[d − α/(2δ)·(g_b″(θ + δd) − g_b″(θ − δd))]."""
    c, alpha, beta, delta = Clients(3, 5, local_epochs=1), 0.2, 0.15, 1e-2
    length = {"fo": 2, "hf": 3}[version]

    def meta_trained(theta, batches):
        speed = 0.0
        for first in range(0, len(batches) - length + 1, length):
            b = batches[first : first + length]
            d = g(theta - alpha * g(theta, b[0]), b[1])
            curved = 0.0
            if version == "hf":
                curved = alpha / (2 * delta) * (g(theta + delta * d, b[2]) - g(theta - delta * d, b[2]))
            speed = momentum * speed + d - curved
            theta = theta - beta * speed
        return theta

    w = c.start
    for t in c.rounds:
        w = c.p @ [meta_trained(w, c.batches(i, t, epochs=passes or length)) for i in c.ids]
    rates = {"alpha": alpha, "beta": beta, "delta": delta, "momentum": momentum}
    method, state = c.run("perfedavg", version=version, passes=passes, adaptation_steps=adaptation, **rates)
    agree(state.server.theta, w)
    steps = [c.batches(i, 2, epochs=1, stream="adapt")[:adaptation] for i in c.ids]
    agree(c.used(method, state), np.array([sgd(w, steps[i], eta=alpha) for i in c.ids]))


@pytest.mark.parametrize("participation", [1.0, 0.67])
@pytest.mark.parametrize("case", AMP)
def test_fedamp(case, participation):
    """u_i = Σ_j ξ_ij θ_j, ξ_ij = α·e^{−‖θ_i − θ_j‖²/σ}/σ scaled down to a sum of 1; pull (λ/α)(θ_i − u_i)."""
    settings, sigma = AMP[case], 0.8
    c = Clients(3, 5, 4, rounds=3, participation=participation)

    def attention(theta, fresh):
        xi = np.zeros((3, 3))
        for i in c.ids:
            others = [j for j in fresh if j != i]
            squares = np.array([((theta[i] - theta[j]) ** 2).sum() for j in others])
            weights = settings["alpha"] * np.exp(-squares / sigma) / sigma
            if case == "heuristic" and others:
                moved = theta - c.start
                unit = moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-300)
                weights = np.exp(settings["sharpness"] * unit[others] @ unit[i])
                weights *= (1 - settings["own"]) / weights.sum()
            xi[i, others] = weights / max(1, weights.sum())
            xi[i, i] = 1 - xi[i].sum()
        return xi

    theta, fresh = c.everywhere(c.start), []
    for t in c.rounds:
        cloud, fresh = attention(theta, fresh) @ theta, c.drawn(t)
        for i in fresh:
            theta[i] = sgd(theta[i], c.batches(i, t), proximal(0.5, cloud[i]))
    method, state = c.run("fedamp", sigma=sigma, **settings)
    xi = method.attention(everyone(c.simulation, 3, state), state).numpy()
    np.testing.assert_allclose(xi, attention(theta, fresh), rtol=0, atol=1e-12)
    assert (np.abs(xi[fresh, fresh]) < 1e-12).all() == (case == "capped")
    agree(state.server.models, theta)
    agree(state.clients.theta, theta)


@pytest.mark.parametrize("case", ALA)
def test_fedala(case):
    """θ̂ = θ_i + (w − θ_i)⊙A_i; A_i ← clip(A_i − η·∇ℓ(θ̂)⊙(w − θ_i), 0, 1): many passes at first, then one a round."""
    settings = {"eta": 2.0, "rand_percent": 80.0, "layer_idx": 2, "threshold": 0.0, "max_passes": 100, "start": 1.0}
    settings |= ALA[case]
    up = {0: THETA, 1: LAST, 2: PI}[settings["layer_idx"]]
    c, passes = Clients(3, 5, rounds=3), []

    def merged(i, t, w, theta, weights):
        """θ̂ and A_i; the first phase is in round 1, the first that finds w ≠ θ_i."""
        batches = c.batches(i, t, epochs=1, share=settings["rand_percent"] / 100, stream="ala")
        gap, losses, at = (w - theta)[up], [], w.copy()
        at[up] = theta[up] + gap * weights
        while gap.any():
            for b in batches:
                last = loss(at, b)
                weights = np.clip(weights - settings["eta"] * g(at, b)[up] * gap, 0, 1)
                at[up] = theta[up] + gap * weights
            losses.append(last)
            settled = len(losses) > 10 and np.std(losses[-10:]) < settings["threshold"]
            if t > 1 or settled or len(losses) == settings["max_passes"]:
                break
        passes.append(len(losses))
        return at, weights

    w, theta = c.start, c.everywhere(c.start)
    weights = c.everywhere(np.full_like(w[up], settings["start"]))
    for t in c.rounds:
        for i in c.ids:
            at, weights[i] = merged(i, t, w, theta[i], weights[i])
            theta[i] = sgd(at, c.batches(i, t))
        w = c.p @ theta
    method, state = c.run("fedala", **settings)
    agree(state.server.theta, w)
    agree(state.clients.theta, theta)
    agree(state.clients.weights, weights)
    agree(c.used(method, state), np.array([merged(i, 3, w, theta[i], weights[i])[0] for i in c.ids]))
    assert passes[:2] == [0, 0] and passes[4:] == [1] * 4
    assert ((weights > 0) & (weights < 1)).any()
    assert case != "until it settles" or 10 < min(passes[2:4]) < max(passes[2:4]) < 100, passes
