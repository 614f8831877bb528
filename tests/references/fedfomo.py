"""FedFomo (Zhang et al., ICLR 2021): clients start from Σ w_n θ_n, with w_n ∝ max(r_n, 0) and r_n the gain by distance.

r_n = (L(θ⁻) − L(θ_n)) / ‖θ_n − θ⁻‖, L on training images where none are held out; θ⁻ is where i last started.
"""

import torch
from references.clients import Clients, flat, mixed, plain, sgd

SETTINGS = ({"explore": 0.0}, {"downloads": 1, "explore": 0.7, "explore_decay": 0.2}, {"downloads": 2})


def state(c: Clients, downloads=5, explore=0.3, explore_decay=0.05):
    n = len(c.ids)
    start, theta, models = [c.start] * n, [c.start] * n, [c.start] * n
    uploaded, preference, weights = [False] * n, torch.zeros(n, n).double(), torch.eye(n).double()
    for t in range(c.simulation.training.rounds):
        numbers = torch.from_numpy(c.random(t, "downloads").random((n, 3, n)))
        sent, drawn = list(models), c.drawn(t)
        most = max(sum(uploaded[j] for j in c.ids if j != i) for i in drawn)
        known = list(uploaded)
        for i in drawn:
            epsilon = max(0.0, explore - explore_decay * t)
            others = tried(i, known, preference[i], numbers[i], min(downloads, most), epsilon)
            r = {None: gain(c, i, theta[i], start[i])} | {j: gain(c, i, sent[j], start[i]) for j in others}
            helpful = {j: max(value, 0.0) for j, value in r.items()}
            total = sum(helpful.values())
            w = {j: value / total if total else float(j is None) for j, value in helpful.items()}
            for j in others:
                preference[i, j] += r[j]
            weights[i] = 0
            for j, share in w.items():
                weights[i, i if j is None else j] += share
            start[i] = mixed(w.values(), [theta[i] if j is None else sent[j] for j in w])
            theta[i] = sgd(start[i], c.batches(i, t))
        for i in drawn:
            models[i], uploaded[i] = theta[i], True
    table = {"preference": preference, "weights": weights, "uploaded": torch.tensor(uploaded)}
    return table | {"models": stack(models)}, [{"start": a, "theta": b} for a, b in zip(start, theta, strict=True)]


def tried(i, known, preference, numbers, count, epsilon):
    """Whose models client i tries: the preferred ones, each replaced with probability ε by one of the others, drawn."""
    ties, retain, replace = numbers
    possible = [j for j in range(len(known)) if known[j] and j != i]
    order = sorted(possible, key=lambda j: (-float(preference[j]), float(ties[j])))
    retained = [j for j in order[:count] if retain[j] >= epsilon]
    rest = sorted((j for j in possible if j not in retained), key=lambda j: -float(replace[j]))
    return retained + rest[: count - len(retained)]


def gain(c, i, model, before):
    """r of a model for client i; 0 for the one that it started from."""
    distance = (flat(model) - flat(before)).norm()
    if not distance:
        return 0.0
    return float((plain(before, c.x[i], c.y[i]) - plain(model, c.x[i], c.y[i])) / distance)


def stack(thetas):
    return {name: torch.stack([theta[name] for theta in thetas]) for name in thetas[0]}
