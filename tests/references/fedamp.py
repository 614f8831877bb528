"""FedAMP (Huang et al., AAAI 2021, Algorithm 1): u_i = Σ_j ξ_ij θ_j with ξ_ij = α·A′(‖θ_i − θ_j‖²), A′(x) = e^{−x/σ}/σ.

Of others, the models of the last round's participants count. HeurFedAMP has shares of e^{s·cos(θ_i − θ⁰, θ_j − θ⁰)}.
"""

import math

import numpy as np
import torch
from references.clients import Clients, flat, mixed, plain, sgd

SETTINGS = (
    {},
    {"alpha": 0.9, "sigma": 0.7, "lam": 0.5},
    {"alpha": 4.0, "sigma": 0.8},
    {"heuristic": True, "sharpness": 3.0, "own": 0.4},
)


def by_distance(theta, others, sigma, alpha):
    """ξ_ij of the others j."""
    squares = {j: float((flat(theta) - flat(other)).square().sum()) for j, other in others.items()}
    xi = {j: alpha * math.exp(-square / sigma) / sigma for j, square in squares.items()}
    return {j: weight / max(1.0, sum(xi.values())) for j, weight in xi.items()}


def by_cosine(theta, others, origin, sharpness, own):
    """ξ_ij of the others j in HeurFedAMP."""
    moved = {j: flat(other) - flat(origin) for j, other in others.items()}
    cosines = {j: torch.cosine_similarity(flat(theta) - flat(origin), move, dim=0) for j, move in moved.items()}
    powers = {j: math.exp(sharpness * float(cosine)) for j, cosine in cosines.items()}
    return {j: (1 - own) * power / sum(powers.values()) for j, power in powers.items()}


def state(c: Clients, alpha=None, sigma=None, lam=0.1, heuristic=False, sharpness=10.0, own=0.3):
    N, theta, fresh = len(c.ids), [c.start] * len(c.ids), []
    attention = torch.eye(N, dtype=torch.float64)
    pull = lam if alpha is None else lam / alpha
    for t in range(c.simulation.training.rounds):
        drawn, models = c.drawn(t), list(theta)
        pairs = [(i, j) for i in drawn for j in fresh if i != j]
        squares = [float((flat(models[i]) - flat(models[j])).square().sum()) for i, j in pairs]
        width = sigma if sigma is not None else float(np.median(squares)) if squares else 1.0
        for i in drawn:
            others = {j: models[j] for j in fresh if j != i}
            if heuristic:
                xi = by_cosine(models[i], others, c.start, sharpness, own)
            else:
                xi = by_distance(models[i], others, width, width / N if alpha is None else alpha)
            xi[i] = 1 - sum(xi.values())
            attention[i] = torch.tensor([xi.get(j, 0.0) for j in c.ids], dtype=torch.float64)
            cloud = mixed(list(xi.values()), [models[j] for j in xi])

            def pulled(theta, x, y, u=cloud):
                return plain(theta, x, y) + pull / 2 * (flat(theta) - flat(u)).square().sum()

            theta[i] = sgd(models[i], c.batches(i, t), pulled)
        fresh = drawn
    models = {name: torch.stack([own[name] for own in theta]) for name in c.start}
    is_fresh = torch.tensor([i in fresh for i in c.ids])
    return {"models": models, "attention": attention, "fresh": is_fresh}, [{"theta": own} for own in theta]
