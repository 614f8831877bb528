"""SCAFFOLD (Karimireddy et al., ICML 2020, Algorithm 1, option II): steps along g + c − c_i."""

import torch
from references.clients import ETA, Clients, mixed, plain, slope

SETTINGS = ({}, {"global_lr": 0.7, "lr": 0.05}, {"weighted": True})
TRAINING = {"lr_schedule": "exponential", "lr_decay": 0.8, "momentum": 0.9}
"Steps have no momentum, and η is that of the round unless the method has one of its own."


def state(c: Clients, global_lr=1.0, lr=None, weighted=False):
    w, n = c.start, len(c.ids)
    variate = {name: torch.zeros_like(t) for name, t in w.items()}
    own = [variate] * n
    for t in range(c.simulation.training.rounds):
        drawn, moves, changes = c.drawn(t), [], []
        eta = ETA * 0.8**t if lr is None else lr
        for i in drawn:
            theta, batches = w, c.batches(i, t)
            for batch in batches:
                g = slope(plain, theta, batch)
                theta = {name: theta[name] - eta * (g[name] + variate[name] - own[i][name]) for name in w}
            new = {name: own[i][name] - variate[name] + (w[name] - theta[name]) / (len(batches) * eta) for name in w}
            moves.append({name: theta[name] - w[name] for name in w})
            changes.append({name: new[name] - own[i][name] for name in w})
            own[i] = new
        move = mixed(c.weights(drawn) if weighted else [1 / len(drawn)] * len(drawn), moves)
        w = {name: w[name] + global_lr * move[name] for name in w}
        variate = mixed([1.0] + [1 / n] * len(drawn), [variate, *changes])
    return {"theta": w, "variate": variate}, [{"variate": c_i} for c_i in own]
