"""FedLC (Zhang et al., ICML 2022): cross entropy of z_c − τ·n_{i,c}^{−1/4}, where a class without images drops out."""

import torch
from references.clients import CLASSES, Clients, logits, mixed, sgd
from torch.nn.functional import cross_entropy

SETTINGS = ({}, {"tau": 2.5, "absent": 0.3}, {"absent": 0.0}, {"tau": 0.0})


def calibrated(n, tau, absent):
    """The loss of a client with n [C] images of each class."""
    n = torch.where(n == 0, absent, n.double())

    def loss(theta, x, y):
        # n → 0 makes the margin infinite, unless τ = 0
        classes = [label for label in range(CLASSES) if n[label] > 0 or tau == 0]
        margins = tau * n[classes] ** -0.25 if tau else 0.0
        targets = torch.tensor([classes.index(label) for label in y.tolist()])
        return cross_entropy(logits(theta, x)[:, classes] - margins, targets)

    return loss


def state(c: Clients, tau=1.0, absent=1.0):
    w = c.start
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        w = mixed(c.weights(drawn), [sgd(w, c.batches(i, t), calibrated(c.counts[i], tau, absent)) for i in drawn])
    return {"theta": w}, []
