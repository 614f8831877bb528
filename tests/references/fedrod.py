"""FedRoD (Chen & Chao, ICLR 2022): balanced softmax for extractor and generic head, a private head on top of both.

On a batch, θ descends CE(a + γ·log n_i, y), and the private head CE(a + a_P, y) with the same z and a as constants.
"""

import torch
from references.clients import EXTRACTOR, HEAD, NAMES, Clients, features, head, logits, mixed, sgd
from torch.nn.functional import cross_entropy, linear

SETTINGS = ({}, {"gamma": 0.4, "private_start": "zero"}, {"share_generic_head": False}, {"gamma": 0.0})
PRIVATE = [f"private.{name}" for name in HEAD]


def balanced(n, gamma):
    """The generic loss of a client with n [C] images of each class: a class without images leaves the softmax."""
    offset = n.double().pow(gamma).log()

    def loss(theta, x, y):
        return cross_entropy(logits(theta, x) + offset, y)

    return loss


def on_top(theta, x, y):
    z = features(theta, x)
    return cross_entropy(head(theta, z) + linear(z, *(theta[name] for name in PRIVATE)), y)


def state(c: Clients, gamma=1.0, private_start="copy", share_generic_head=True):
    shared = NAMES if share_generic_head else EXTRACTOR
    first = {f"private.{name}": c.start[name] for name in HEAD}
    if private_start == "zero":
        first = {name: torch.zeros_like(x) for name, x in first.items()}
    w, theta = {name: c.start[name] for name in shared}, [c.start | first] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        for i in drawn:
            theta[i] = theta[i] | w
            for batch in c.batches(i, t):
                stepped = sgd(theta[i], [batch], on_top, names=PRIVATE)
                theta[i] = sgd(theta[i], [batch], balanced(c.counts[i], gamma))
                theta[i] |= {name: stepped[name] for name in PRIVATE}
        average = mixed(c.weights(drawn), [theta[i] for i in drawn])
        w = {name: average[name] for name in shared}
    private = PRIVATE if share_generic_head else PRIVATE + HEAD
    return {"theta": w}, [{"private": {name: own[name] for name in private}} for own in theta]


def used(c: Clients, server, own, **_):
    return [server["theta"] | entries["private"] for entries in own]
