"""pFedSim (Tan et al., arXiv 2305.15706): FedAvg for ⌊ρT⌋ rounds, then extractors mixed by the similarity of heads."""

import math

import torch
from references.clients import EXTRACTOR, Clients, cosine, mixed, sgd

SETTINGS = ({}, {"warmup": 0.0}, {"warmup": 0.3})
HIGHEST = 0.9999


def state(c: Clients, warmup=0.5):
    n, rounds = len(c.ids), c.simulation.training.rounds
    w, own = c.start, {}
    similar = torch.zeros(n, n).double()
    for t in range(rounds):
        drawn = c.drawn(t)
        if t < math.floor(warmup * rounds):
            w = mixed(c.weights(drawn), [sgd(w, c.batches(i, t)) for i in drawn])
            continue
        sent = {i: {name: theta[name] for name in EXTRACTOR} for i, theta in own.items()}
        for i in drawn:
            theta = w
            if i in own:
                a = {j: -math.log(1 - (HIGHEST if j == i else min(similar[i, j].item(), HIGHEST))) for j in sent}
                theta = own[i] | mixed([a_j / sum(a.values()) for a_j in a.values()], list(sent.values()))
            own[i] = sgd(theta, c.batches(i, t))
        for i in drawn:
            for j in set(drawn) - {i}:
                similar[i, j] = cosine(own[i]["head.weight"], own[j]["head.weight"]).mean().clamp(min=0)
    thetas = [own.get(i, c.start) for i in c.ids]
    extractors = {name: torch.stack([theta[name] for theta in thetas]) for name in EXTRACTOR}
    server = {"theta": w, "similarity": similar, "extractors": extractors}
    return server, [{"theta": theta, "personal": i in own} for i, theta in enumerate(thetas)]


def used(c: Clients, server, own, **_):
    return [entries["theta"] if entries["personal"] else server["theta"] for entries in own]
