"""APPLE (Luo & Wu, IJCAI 2022): θ_i = Σ_j p_ij c_j; on a batch, c_i and p_i step with momentum from before the batch.

∇c_i = p_ii·∇L_i(θ_i) and ∂p_ij = ⟨∇L_i(θ_i), c_j⟩ + 2λ(t)·μ·(p_ij − n_j/n), λ falling to 0 in the first L rounds.
"""

from math import cos, pi

import torch
from references.clients import ETA, NAMES, Clients, mixed, plain, slope

SETTINGS = (
    {},
    {"relation_lr": 0.02, "mu": 0.6, "share": 0.9, "momentum": 0.5},
    {"relation_lr": 0.02, "mu": 0.6, "share": 1.0, "schedule": "cosine", "lr": 0.3},
)


def weight(t, until, schedule):
    """λ(t)."""
    if t >= until:
        return 0.0
    return 0.001 ** (t / until) if schedule == "exponential" else (1 + cos(pi * t / until)) / 2


def trained(cores, p, i, prior, batches, pull, lr, relation_lr, momentum):
    """c_i and p_i after local training; `pull` is 2λ(t)·μ."""
    cores, speed, drift = list(cores), dict.fromkeys(NAMES, 0.0), 0.0
    for batch in batches:
        gradient = slope(plain, mixed(p, cores), batch)
        inner = torch.stack([sum((gradient[name] * core[name]).sum() for name in NAMES) for core in cores])
        drift = momentum * drift + inner + pull * (p - prior)
        speed = {name: momentum * speed[name] + p[i] * gradient[name] for name in NAMES}
        cores[i] = {name: cores[i][name] - lr * speed[name] for name in NAMES}
        p = p - relation_lr * drift
    return cores[i], p


def state(c: Clients, lr=ETA, relation_lr=0.001, momentum=0.9, mu=0.1, share=0.1, schedule="exponential"):
    prior, rounds = c.weights(c.ids), c.simulation.training.rounds
    cores, p = [c.start] * len(c.ids), [prior] * len(c.ids)
    for t in range(rounds):
        pull, received = 2 * mu * weight(t, int(share * rounds), schedule), list(cores)
        for i in c.drawn(t):
            batches = c.batches(i, t)
            cores[i], p[i] = trained(received, p[i], i, prior, batches, pull, lr, relation_lr, momentum)
    server = {"cores": {name: torch.stack([core[name] for core in cores]) for name in NAMES}, "prior": prior}
    return server, [{"core": core, "relations": own} for core, own in zip(cores, p, strict=True)]


def used(c: Clients, server, own, **_):
    cores = [entries["core"] for entries in own]
    return [mixed(entries["relations"], cores) for entries in own]
