"""IFCA (Ghosh et al., NeurIPS 2020, Algorithm 1, option II): each client trains the model with its lowest loss."""

import torch
from references.clients import SEED, Clients, mixed, plain, sgd

SETTINGS = ({}, {"models": 2}, {"models": 6})


def lowest(w, c: Clients, i):
    """The number of the model with the lowest loss on a client's images."""
    losses = [plain(w_k, c.x[i], c.y[i]).item() for w_k in w]
    return losses.index(min(losses))


def state(c: Clients, models=3):
    seeds = c.random(0, "starts").integers(1 << 62, size=models - 1)
    starts = [c.simulation.model.initial(seed) for seed in [SEED, *seeds.tolist()]]
    w = [{name: t.double() for name, t in start.items()} for start in starts]
    choice = [0] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, trained = c.drawn(t), {}
        for i in drawn:
            choice[i] = lowest(w, c, i)
            trained[i] = sgd(w[choice[i]], c.batches(i, t))
        for k in {choice[i] for i in drawn}:
            members = [i for i in drawn if choice[i] == k]
            w[k] = mixed(c.weights(members), [trained[i] for i in members])
    return {"models": {name: torch.stack([w_k[name] for w_k in w]) for name in w[0]}, "cluster": choice}, []


def used(c: Clients, server, own, **_):
    w = [{name: t[k] for name, t in server["models"].items()} for k in range(len(server["models"]["head.bias"]))]
    return [w[lowest(w, c, i)] for i in c.ids]
