"""Rounds of the representation methods from their equations, in plain torch and numpy, sample by sample.

Four clients of unequal size, one of them with a single image, train a perceptron in float64; each lacks most classes
and nobody has the last three. Of fedgrid come the images, the order of the batches, what is drawn at random and θ⁰. The
names are those of the papers: z is a representation, μ a client's class mean, G a global one, φ and π are extractor and
head. With half of the clients in a round, some classes become known late, some are known from an earlier round alone,
and idle clients keep what they had.
"""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, linear, relu

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.local.task import LocalTask
from fedgrid.engine.rounds import federate
from fedgrid.randomness import generator
from fedgrid.suite import simulations

LABELS = [[0, 0, 1, 1, 2, 0, 1], [1, 2, 2, 3, 3], [6], [3, 0, 4, 4, 5, 5]]
CLASSES, WIDTH, ETA, DECAY, MOMENTUM = 10, 8, 0.1, 0.8, 0.5
PHI = [f"extractor.{layer}.{kind}" for layer in (1, 3) for kind in ("weight", "bias")]
PI = ["head.weight", "head.bias"]
SOME = pytest.mark.parametrize("participation", [1.0, 0.5])


class Clients:
    """The clients, and what all equations need of them."""

    def __init__(self, participation, start=0, **training):
        usual = {"local_epochs": 2, "lr": ETA, "lr_schedule": "exponential", "lr_decay": DECAY, "momentum": MOMENTUM}
        train = [simulations.draw(labels, start=100 * (i + start)) for i, labels in enumerate(LABELS)]
        self.simulation = simulations.simulation(
            train, dtype="float64", participation=participation, **usual | training
        )
        self.ids, self.rounds = range(len(LABELS)), range(3)
        self.start = {name: t.double() for name, t in self.simulation.model.initial(0).items()}
        self.n = [np.bincount(labels, minlength=CLASSES) for labels in LABELS]

    def drawn(self, t):
        """S_t."""
        return participants(self.simulation, t).tolist()

    def images(self, b):
        data = self.simulation.data
        return ((data.images[b].double() - data.centre) / data.spread).flatten(1), data.labels[b].tolist()

    def batches(self, i, t, epochs=None, stream="main"):
        simulation, size = self.simulation, self.simulation.training.batch_size
        task = LocalTask(
            simulation.data, simulation.data.train, simulation.model, size, 0, t, [i], {}, {}, {}, stream=stream
        )
        epochs = range(simulation.training.local_epochs if epochs is None else epochs)
        return [b for e in epochs for b in simulation.data.train[i][task.order(i, e)].split(size)]

    def z(self, theta, b):
        """Representations and labels of some images."""
        x, y = self.images(b)
        hidden = relu(linear(x, theta["extractor.1.weight"], theta["extractor.1.bias"]))
        return relu(linear(hidden, theta["extractor.3.weight"], theta["extractor.3.bias"])), y

    def own(self, theta, i):
        """Representations and labels of all images of a client, in numpy."""
        z, y = self.z(theta, self.simulation.data.train[i])
        return z.numpy(), np.array(y)

    def mu(self, theta, i):
        """{c: μ_ic}."""
        z, y = self.own(theta, i)
        return {c: z[y == c].mean(axis=0) for c in set(y)}

    def sgd(self, theta, batches, rate, names=PHI + PI, penalty=lambda z, y: 0.0):
        """θ ← θ − η·v, v ← ½v + ∇(CE + penalty), on `names` alone, from a fresh v."""
        theta, speed = dict(theta), dict.fromkeys(names, 0.0)
        for b in batches:
            free = {name: theta[name].clone().requires_grad_() for name in names}
            z, y = self.z(theta | free, b)
            logits = linear(z, *((theta | free)[name] for name in PI))
            loss = cross_entropy(logits, torch.tensor(y)) + penalty(z, y)
            for name, slope in zip(names, torch.autograd.grad(loss, list(free.values())), strict=True):
                speed[name] = MOMENTUM * speed[name] + slope
                theta[name] = theta[name] - rate * speed[name]
        return theta

    def average(self, theta, ids, names):
        """Σ p_i θ_i."""
        total = sum(self.n[i].sum() for i in ids)
        return {name: sum(self.n[i].sum() / total * theta[i][name] for i in ids) for name in names}

    def pooled(self, mu, counted):
        """{c: G_c} over the clients of `mu` that have c, weighted by n_ic or equally."""
        having = {c: [i for i in mu if c in mu[i]] for c in range(CLASSES)}
        weights = {i: self.n[i] if counted else np.ones(CLASSES) for i in mu}
        return {
            c: sum(weights[i][c] * mu[i][c] for i in ids) / sum(weights[i][c] for i in ids)
            for c, ids in having.items()
            if ids
        }

    def run(self, name, **settings):
        """State and record after the last round, and the models on receiving the server's message then."""
        method = simulations.method(name, **settings)
        progress = federate(method, self.simulation).progress
        with torch.no_grad():
            personal = method.used(everyone(self.simulation, len(self.rounds), progress.state), progress.state)
        return progress.state, personal, progress.record


def agree(ours, expected):
    """A tree, or a stack of trees and a list of them."""
    if isinstance(expected, list):
        expected = {name: torch.stack([theta[name] for theta in expected]) for name in expected[0]}
    assert set(ours) == set(expected)
    for name, t in expected.items():
        torch.testing.assert_close(ours[name], t, rtol=0, atol=1e-9)


def agree_on_prototypes(state, centres):
    assert state.server.known.nonzero().flatten().tolist() == sorted(centres)
    for c, centre in centres.items():
        np.testing.assert_allclose(state.server.prototypes[c], centre, rtol=0, atol=1e-9)


def pull(weight, targets):
    """weight·Σ_b ‖z_b − targets[y_b]‖² / (B·k) over the samples that have a target; the others stay in the divisor."""

    def penalty(z, y):
        pulled = [b for b, label in enumerate(y) if label in targets]
        return weight * sum(((z[b] - torch.as_tensor(targets[y[b]])) ** 2).sum() for b in pulled) / z.numel()

    return penalty


@SOME
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("weighting", ["equal", "count"])
def test_fedproto(weighting, average, participation):
    """CE + λ·MSE(z, G_y) where G_y is known; then μ_ic, and G_c as their mean (Eq. 6). Nearest known G_c predicts."""
    c, lam, centres = Clients(participation), 3.0, {}
    theta, w = [c.start] * 4, c.start
    for t in c.rounds:
        drawn = c.drawn(t)
        for i in drawn:
            theta[i] = c.sgd(w if average else theta[i], c.batches(i, t), ETA * DECAY**t, penalty=pull(lam, centres))
        centres |= c.pooled({i: c.mu(theta[i], i) for i in drawn}, weighting == "count")
        w = c.average(theta, drawn, PHI + PI)
    state, personal, record = c.run("fedproto", lam=lam, weighting=weighting, average=average)
    agree(state.clients.theta, theta)
    agree_on_prototypes(state, centres)
    used = [w] * 4 if average else theta
    agree(personal, used)
    if average:
        agree(state.server.theta, w)
    known, right = sorted(centres), []
    for i in c.ids:
        z, y = c.own(used[i], i)
        squares = [((z - centres[label]) ** 2).sum(axis=1) for label in known]
        right.append(np.mean(np.array(known)[np.argmin(squares, axis=0)] == y))
    assert [row[3] for row in record.rows if row[:2] == (3, "accuracy_received")] == [right]


def smallest_on_simplex(programme):
    """min wᵀPw by enumeration of supports A, w_A ∝ P_A⁻¹1."""
    size, best = len(programme), (np.inf, None)
    programme = programme + 1e-12 * programme.max() * np.eye(size)
    for chosen in (list(some) for m in range(1, size + 1) for some in combinations(range(size), m)):
        w = np.zeros(size)
        w[chosen] = np.linalg.solve(programme[np.ix_(chosen, chosen)], np.ones(len(chosen)))
        w /= w.sum()
        if (w >= 0).all():
            best = min(best, (w @ programme @ w, list(w)))
    return np.array(best[1])


@SOME
@pytest.mark.parametrize("combine", [True, False])
def test_fedpac(combine, participation):
    """H_i and v_i of the received model; π on CE alone; φ on CE + λ·MSE(z, G_y or μ_iy as received); then Eq. 10."""
    c, lam, head_lr, cutoff = Clients(participation, start=3), 2.0, 0.3, 0.05
    phi, theta, centres, late, seen = {name: c.start[name] for name in PHI}, [c.start] * 4, {}, 0, []
    for t in c.rounds:
        drawn, h, v = c.drawn(t), {}, {}
        for i in drawn:
            received, size = theta[i] | phi, c.n[i].sum()
            own, z = c.mu(received, i), c.own(received, i)[0]
            h[i] = np.array([c.n[i][k] / size * own.get(k, np.zeros(WIDTH)) for k in range(CLASSES)])
            v[i] = ((z**2).sum() / size - (h[i] ** 2).sum()) / size
            targets = {**own, **centres} if centres else {}
            late += bool(centres) and not own.keys() <= centres.keys()
            fitted = c.sgd(received, c.batches(i, t, 3, "head"), head_lr, PI)
            theta[i] = c.sgd(fitted, c.batches(i, t), ETA * DECAY**t, PHI, pull(lam, targets))
        centres |= c.pooled({i: c.mu(theta[i], i) for i in drawn}, counted=True)
        phi = c.average(theta, drawn, PHI)
        heads = {i: {name: theta[i][name] for name in PI} for i in drawn}
        for i in drawn if combine else []:
            delta = np.array([(h[i] - h[j]).ravel() for j in drawn])
            alpha = smallest_on_simplex(np.diag([v[j] for j in drawn]) + delta @ delta.T)
            seen += list(alpha)
            alpha[alpha < cutoff] = 0
            alpha /= alpha.sum()
            mixed = {name: sum(a * heads[j][name] for a, j in zip(alpha, drawn, strict=True)) for name in PI}
            theta[i] = theta[i] | mixed
    state, personal, _ = c.run("fedpac", lam=lam, head_lr=head_lr, head_epochs=3, cutoff=cutoff, combine=combine)
    agree(state.clients.theta, theta)
    agree(state.server.theta, phi)
    agree(personal, [own | phi for own in theta])
    agree_on_prototypes(state, centres)
    assert late or participation == 1  # a class without a global mean among others that have one
    assert not combine or participation < 1 or any(0.005 < a < cutoff - 0.005 for a in seen)
    assert not combine or any(0.1 < a < 0.9 for a in seen)  # and some below the cutoff, if all take part


@SOME
@pytest.mark.parametrize(("passes", "size"), [(1, 100), (3, 4)])
def test_fedgh(passes, size, participation):
    """θ_i = (φ_i, π_G) on CE; π_G ← π_G − η_s·∇CE(π_G; μ_ic, c) over all pairs, each once in a pass."""
    c, eta = Clients(participation), 0.5
    theta, head = [c.start] * 4, {name: c.start[name] for name in PI}
    for t in c.rounds:
        for i in c.drawn(t):
            theta[i] = c.sgd(theta[i] | head, c.batches(i, t), ETA * DECAY**t)
        pairs = [(label, mean) for i in c.drawn(t) for label, mean in sorted(c.mu(theta[i], i).items())]
        weight, bias = (head[name].numpy() for name in PI)
        for number in range(passes):
            order = generator(f"method server {number}", 0, t).permutation(len(pairs))
            for first in range(0, len(pairs), size):
                y, z = zip(*(pairs[k] for k in order[first : first + size]), strict=True)
                p = np.exp(np.array(z) @ weight.T + bias)
                residual = (p / p.sum(axis=1, keepdims=True) - np.eye(CLASSES)[list(y)]) / len(y)
                weight, bias = weight - eta * residual.T @ np.array(z), bias - eta * residual.sum(axis=0)
        head = dict(zip(PI, (torch.from_numpy(weight), torch.from_numpy(bias)), strict=True))
    state, personal, _ = c.run("fedgh", server_lr=eta, server_passes=passes, server_batch=size)
    agree(state.clients.theta, theta)
    agree(state.server.head, head)
    agree(personal, [own | head for own in theta])


ABLATIONS = {
    "complete": {},
    "w/o LA": {"local_aggregation": False},
    "w/o Sep": {"separate": False},
    "w/o CRL": {"contrast": False},
    "w/o Sep and LA": {"separate": False, "local_aggregation": False},
    "lost uploads": {"lost_uploads": 0.6},
    "every upload but one is lost": {"lost_uploads": 1.0},
    "clipped": {"clip_params": True},
}


@SOME
@pytest.mark.parametrize("case", ABLATIONS)
def test_fedcosr(case, participation):
    """Eqs. 3–15: blend by τ = exp(−γL); train on CE + α·L, L the mean contrast; φ and G are weighted by images."""
    without, alpha, gamma, temperature = ABLATIONS[case], 0.7, 0.8, 0.3
    c, shared = Clients(participation), PHI + PI if "separate" in without else PHI
    theta, w, centres, last = [c.start] * 4, {name: c.start[name] for name in shared}, {}, [None] * 4

    def contrasts(z, y):
        """−log of the share of the own class, of every sample whose class is known (Eqs. 12–13)."""
        bank = {k: torch.as_tensor(centre) for k, centre in centres.items()}
        for vector, label in zip(z, y, strict=True):
            if label in bank:
                at = {k: vector @ g / (vector.norm() * g.norm()) / temperature for k, g in bank.items()}
                yield torch.logsumexp(torch.stack(list(at.values())), dim=0) - at[label]

    def blended(i):
        """Eqs. 7–9; as long as no training has given L, it is that of the own model and the received G."""
        values = [float(value) for value in contrasts(*c.z(theta[i], c.simulation.data.train[i]))]
        regular = np.mean(values or [0.0]) if last[i] is None else last[i]
        tau = 0.0 if "local_aggregation" in without else np.exp(-gamma * regular)
        return theta[i] | {key: tau * theta[i][key] + (1 - tau) * w[key] for key in shared}

    def trained(i, t):
        seen = []

        def regularity(z, y):
            values = list(contrasts(z, y))
            seen.extend(value.item() for value in values)
            weight = 0.0 if "contrast" in without else alpha
            return weight * sum(values) / len(values) if values else 0.0

        own = c.sgd(blended(i), c.batches(i, t), ETA * DECAY**t, penalty=regularity)
        last[i] = np.mean(seen[len(seen) // 2 :]) if seen else None  # both epochs see the same images
        return {key: t.clamp(0, 1) for key, t in own.items()} if "clip_params" in without else own

    for t in c.rounds:
        ids = c.drawn(t)
        theta = [trained(i, t) if i in ids else theta[i] for i in c.ids]
        draws = generator("method lost uploads", 0, t).random(len(ids))
        heard = [i for i, u in zip(ids, draws, strict=True) if u >= without.get("lost_uploads", 0) or u == max(draws)]
        w = c.average(theta, heard, shared)
        centres |= c.pooled({i: c.mu(theta[i], i) for i in heard}, counted=True)
    state, personal, _ = c.run("fedcosr", alpha=alpha, gamma=gamma, temperature=temperature, **without)
    agree(state.clients.theta, theta)
    agree(state.server.theta, w)
    agree_on_prototypes(state, centres)
    expected = torch.tensor([np.nan if value is None else value for value in last])
    torch.testing.assert_close(state.clients.regularity, expected.double(), rtol=0, atol=1e-9, equal_nan=True)
    agree(personal, [blended(i) for i in c.ids])
