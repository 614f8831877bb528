"""FedCAC (Wu et al., ICCV 2023): important parameters are averaged with the clients to whom the same ones matter.

M_i marks the ⌊τ·d⌋ largest |(θ_i − start)⊙θ_i| of each tensor; O_ij is the share of M_i that M_j has, too.
"""

import torch
from references.clients import NAMES, Clients, flat, mixed, sgd

SETTINGS = ({}, {"tau": 0.3, "beta": 2}, {"tau": 0.8, "beta": 10}, {"tau": 1.0, "beta": 1})


def marked(start, theta, tau):
    score = ((theta - start) * theta).abs()
    number = int(tau * score.numel())
    if number == 0:
        return torch.zeros_like(score, dtype=torch.bool)
    smallest = score.flatten().sort(descending=True).values[number - 1]
    return (score >= smallest) & (score > 0)


def chosen(mask, mixture, w):
    """The mixture where a parameter is important, else w."""
    return {name: torch.where(mask[name], mixture[name], w[name]) for name in NAMES}


def overlap(first, second):
    """O_ij of two clients; 0 without marks."""
    first, second = flat(first).double(), flat(second).double()
    return float(1 - (first - second).abs().sum() / (2 * first.sum())) if first.sum() else 0.0


def state(c: Clients, tau=0.1, beta=100):
    w, mixture = c.start, [c.start] * len(c.ids)
    mask = [{name: torch.zeros_like(c.start[name], dtype=torch.bool) for name in NAMES}] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, trained = c.drawn(t), {}
        for i in drawn:
            start = chosen(mask[i], mixture[i], w)
            trained[i] = sgd(start, c.batches(i, t))
            mask[i] = {name: marked(start[name], trained[i][name], tau) for name in NAMES}
        overlaps = {(i, j): overlap(mask[i], mask[j]) for i in drawn for j in drawn if i != j}
        mean, most = sum(overlaps.values()) / len(overlaps), max(overlaps.values())
        threshold = mean + (t + 1) / beta * (most - mean)
        for i in drawn:
            # the threshold of round β − 1 is the largest overlap itself, but for rounding
            others = [j for j in drawn if j != i and overlaps[i, j] >= threshold - 1e-12]
            together = [trained[j] for j in sorted([i, *others])]
            mixture[i] = mixed([1 / len(together)] * len(together), together)
        w = mixed(c.weights(drawn), [trained[i] for i in drawn])
    return {"theta": w}, [{"mixture": mixture[i], "important": mask[i]} for i in c.ids]


def used(c: Clients, server, own, **_):
    return [chosen(entries["important"], entries["mixture"], server["theta"]) for entries in own]
