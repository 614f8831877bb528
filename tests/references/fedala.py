"""FedALA (Zhang et al., AAAI 2023, Algorithm 1): training starts at θ_i + (w − θ_i) ⊙ A_i in the last tensors (Eq. 4).

A_i ← clip(A_i − η·∇ℓ ⊙ (w − θ_i), 0, 1) (Eq. 5), in many passes at first, in a single one in later rounds.
"""

import numpy as np
import torch
from references.clients import BATCH, NAMES, Clients, mixed, plain, sgd, slope

SETTINGS = (
    {},
    {"layer_idx": 3, "eta": 0.3, "start": 0.5, "threshold": 0.001, "max_passes": 20, "rand_percent": 50.0},
    {"layer_idx": 0, "threshold": 0.0, "max_passes": 12},
    {"layer_idx": 1},
)
WINDOW = 10


def joined(own, w, a):
    """θ̂: w's lower tensors, and the mixture of the others."""
    return {**w, **{name: own[name] + (w[name] - own[name]) * a[name] for name in a}}


def some_images(c: Clients, i, t, percent):
    """Batches of a share of an epoch's images, the first ones in its order."""
    x, y = (torch.cat(tensors) for tensors in zip(*c.batches(i, t, 1, stream="ala"), strict=True))
    number = max(1, int(percent / 100 * len(y) + 1e-9))
    return list(zip(x[:number].split(BATCH), y[:number].split(BATCH), strict=True))


def learned(own, w, a, batches, eta):
    """A after a pass, and the loss of its last batch."""
    for batch in batches:
        theta = joined(own, w, a)
        gradient, loss = slope(plain, theta, batch, list(a)), float(plain(theta, *batch))
        a = {name: (a[name] - eta * gradient[name] * (w[name] - own[name])).clamp(0, 1) for name in a}
    return a, loss


def state(c: Clients, eta=1.0, rand_percent=80.0, layer_idx=2, threshold=0.1, max_passes=100, start=1.0):
    w, theta, started = c.start, [c.start] * len(c.ids), [False] * len(c.ids)
    a = [{name: torch.full_like(c.start[name], start) for name in NAMES[-layer_idx:]}] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        for i in drawn:
            if any((theta[i][name] != w[name]).any() for name in NAMES):
                batches, losses = some_images(c, i, t, rand_percent), []
                while len(losses) < (1 if started[i] else max_passes):
                    a[i], loss = learned(theta[i], w, a[i], batches, eta)
                    losses.append(loss)
                    if len(losses) > WINDOW and np.std(losses[-WINDOW:]) < threshold:
                        break
                started[i] = True
            theta[i] = sgd(joined(theta[i], w, a[i]), c.batches(i, t))
        w = mixed(c.weights(drawn), [theta[i] for i in drawn])
    return {"theta": w}, [{"theta": theta[i], "weights": a[i], "started": started[i]} for i in c.ids]


def used(c: Clients, server, own, eta=1.0, rand_percent=80.0, **_):
    """θ̂ after a pass, which a client makes that has learned A before."""
    models = []
    for i, entries in enumerate(own):
        a, w = entries["weights"], server["theta"]
        if entries["started"]:
            batches = some_images(c, i, c.simulation.training.rounds, rand_percent)
            a, _ = learned(entries["theta"], w, a, batches, eta)
        models.append(joined(entries["theta"], w, a))
    return models
