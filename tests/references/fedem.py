"""FedEM (Marfoq et al., NeurIPS 2021, Algorithm 1): M learners w_m, mixed with each client's weights π_i."""

import torch
from references.clients import Clients, logits, mixed, sgd
from torch.nn.functional import cross_entropy

SETTINGS = ({}, {"learners": 2})


def losses(theta, x, y):
    """Cross entropy of each image [B]."""
    return cross_entropy(logits(theta, x), y, reduction="none")


def shares(models, pi, x, y):
    """E-step: q_m(x) ∝ π_m·exp(−ℓ(w_m; x, y)) [B, M]."""
    q = torch.stack([weight * torch.exp(-losses(w, x, y)) for weight, w in zip(pi, models, strict=True)], dim=1)
    return q / q.sum(dim=1, keepdim=True)


def weighted(theta, x, y, q):
    """M-step: the mean of q_m(x)·ℓ(θ_m; x, y), for images whose shares q [B] are known."""
    return (q * losses(theta, x, y)).mean()


def state(c: Clients, learners=3):
    seeds = c.random(0, "starts").integers(1 << 62, size=learners - 1).tolist()
    others = [c.simulation.model.initial(seed) for seed in seeds]
    models = [c.start, *({name: tensor.double() for name, tensor in other.items()} for other in others)]
    pi = [torch.full((learners,), 1 / learners, dtype=torch.float64)] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, trained = c.drawn(t), []
        for i in drawn:
            batches = [(x, y, shares(models, pi[i], x, y)) for x, y in c.batches(i, t)]
            own = [[(x, y, q[:, m]) for x, y, q in batches] for m in range(learners)]
            trained.append([sgd(w, own_batches, weighted) for w, own_batches in zip(models, own, strict=True)])
            pi[i] = shares(models, pi[i], c.x[i], c.y[i]).mean(dim=0)
        models = [mixed(c.weights(drawn), thetas) for thetas in zip(*trained, strict=True)]
    return {"models": {str(m): w for m, w in enumerate(models)}}, [{"pi": weights} for weights in pi]


def used(c: Clients, server, own, **_):
    return [server | entries for entries in own]
