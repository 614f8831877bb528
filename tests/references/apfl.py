"""APFL (Deng et al., arXiv 2003.13461, 2020, Algorithm 1): w_i, v_i and α_i take one step each on every batch."""

import torch
from references.clients import ETA, NAMES, Clients, flat, mixed, plain, slope

SETTINGS = ({}, {"alpha": 0.3, "adaptive": False}, {"alpha": 0.9, "lr": 0.5})


def state(c: Clients, alpha=0.5, adaptive=True, lr=ETA):
    w, v = c.start, [c.start] * len(c.ids)
    a = [torch.tensor(alpha, dtype=torch.float64)] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, local = c.drawn(t), {}
        for i in drawn:
            local[i] = w
            for batch in c.batches(i, t):
                mixture = mixed([a[i], 1 - a[i]], [v[i], local[i]])
                gradient, of_mixture = slope(plain, local[i], batch), slope(plain, mixture, batch)
                along = flat(of_mixture) @ (flat(v[i]) - flat(local[i]))
                local[i] = {name: local[i][name] - lr * gradient[name] for name in NAMES}
                v[i] = {name: v[i][name] - lr * a[i] * of_mixture[name] for name in NAMES}
                if adaptive:
                    a[i] = (a[i] - lr * along).clamp(0, 1)
        w = mixed(c.weights(drawn), list(local.values()))
    return {"theta": w}, [{"personal": v[i], "alpha": a[i]} for i in c.ids]


def used(c: Clients, server, own, **_):
    return [mixed([entries["alpha"], 1 - entries["alpha"]], [entries["personal"], server["theta"]]) for entries in own]
