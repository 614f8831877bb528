"""DBE (Zhang et al., NeurIPS 2023): logits h(z + m_i; π), loss CE + κ·½·mean_k(mean_b z − z̄)² after a first round.

That first round is FedAvg; then z̄ = Σ p_i z̄_i is formed, of the mean features under the models that it trained.
"""

import torch
from references.clients import NAMES, Clients, features, head, mixed, plain, sgd
from torch.nn.functional import cross_entropy

SETTINGS = ({}, {"kappa": 50.0}, {"kappa": 5.0, "memory": False})


def state(c: Clients, kappa=None, memory=True):
    kappa = 0.25 / c.simulation.training.lr if kappa is None else kappa
    w, centre = c.start, None
    m = [torch.zeros(c.start["head.weight"].shape[1], dtype=torch.float64) for _ in c.ids]
    for t in range(c.simulation.training.rounds):
        drawn, trained = c.drawn(t), []

        def regularised(theta, x, y, centre=centre):
            z = features(theta, x)
            away = z.mean(dim=0) - centre
            return cross_entropy(head(theta, z + theta["m"]), y) + kappa / 2 * away.square().mean()

        for i in drawn:
            loss, names = (plain, NAMES) if centre is None else (regularised, [*NAMES, "m"] if memory else NAMES)
            trained.append(sgd({**w, "m": m[i]}, c.batches(i, t), loss, names=names))
            m[i] = trained[-1].pop("m")
        p = c.weights(drawn)
        w = mixed(p, trained)
        if centre is None:
            means = [features(theta, c.x[i]).mean(dim=0) for i, theta in zip(drawn, trained, strict=True)]
            centre = sum(p_i * mean for p_i, mean in zip(p, means, strict=True))
    return {"theta": w, "mean_feature": centre}, [{"memory": m_i} for m_i in m] if memory else []


def used(c: Clients, server, own, **_):
    return [server["theta"] | entries for entries in own or [{}] * len(c.ids)]
