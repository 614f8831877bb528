"""FedOpt (Reddi et al., ICLR 2021, Algorithm 2; momentum: Hsu et al., 2019): steps by Δ = Σ p_i (θ_i − w)."""

import torch
from references.clients import Clients, mixed, sgd

SETTINGS = (
    {},
    {"kind": "yogi", "server_lr": 0.05, "beta1": 0.5, "beta2": 0.8, "tau": 0.01, "start": 0.0003},
    {"kind": "adagrad"},
    {"kind": "momentum"},
    {"kind": "momentum", "server_lr": 0.7, "beta1": 0.6, "nesterov": True},
)


def second_moment(kind, v, delta, beta2):
    if kind == "adam":
        return beta2 * v + (1 - beta2) * delta**2
    if kind == "yogi":
        return v - (1 - beta2) * delta**2 * torch.sign(v - delta**2)
    return v + delta**2


def state(c: Clients, kind="adam", server_lr=None, beta1=None, beta2=0.99, tau=0.001, start=None, nesterov=False):
    eta = server_lr or {"momentum": 1.0, "adam": 0.03}.get(kind, 0.1)
    beta1 = (0.0 if kind == "adagrad" else 0.9) if beta1 is None else beta1
    w, m = c.start, {name: torch.zeros_like(x) for name, x in c.start.items()}
    v = {name: torch.full_like(x, tau**2 if start is None else start) for name, x in c.start.items()}
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        average = mixed(c.weights(drawn), [sgd(w, c.batches(i, t)) for i in drawn])
        delta = {name: average[name] - w[name] for name in w}
        if kind == "momentum":
            m = {name: beta1 * m[name] + delta[name] for name in w}
            step = {name: delta[name] + beta1 * m[name] for name in w} if nesterov else m
        else:
            m = {name: beta1 * m[name] + (1 - beta1) * delta[name] for name in w}
            v = {name: second_moment(kind, v[name], delta[name], beta2) for name in w}
            step = {name: m[name] / (v[name].sqrt() + tau) for name in w}
        w = {name: w[name] + eta * step[name] for name in w}
    # momentum has no v
    return {"theta": w, "first": m} | ({} if kind == "momentum" else {"second": v}), []
