"""pFedGraph (Ye et al., ICML 2023): row i of the graph W minimises α·‖w − p‖² − Σ_j S_ij w_j over the simplex, and
client i trains its mixture Σ_j W_ij θ_j on cross entropy − λ·cos(θ, Σ_j W_ij θ_j).
"""

import torch
from references.clients import HEAD, NAMES, Clients, cosine, flat, mixed, plain, sgd

SETTINGS = (
    {},
    {"lam": 0.5, "similarity": "parameters", "layers": "head", "threshold": 1.0, "alpha": 2.0},
    {"lam": -0.5, "similarity": "since_start", "pull": "directions", "threshold": 0.5},
)


def on_simplex(v: torch.Tensor) -> torch.Tensor:
    """The nearest point of {w ≥ 0, Σ w = 1}: max(v − σ, 0), where σ is the largest (Σ of the r largest v − 1)/r."""
    sigma = max((v.topk(r).values.sum() - 1) / r for r in range(1, len(v) + 1))
    return (v - sigma).clamp(min=0)


def collaborate(c: Clients, v, lam=0.01, similarity="last_round", layers="all", threshold=0.9, pull="mixture"):
    """All rounds; row i of W is the point of the simplex nearest to row i of v(t, drawn, trained, S, p)."""
    n, names = len(c.ids), {"all": NAMES, "linear": NAMES, "head": HEAD}[layers]
    mixture, target, served = [c.start] * n, [c.start] * n, [False] * n
    graph, similar = torch.eye(n).double(), torch.zeros(n, n).double()
    for t in range(c.simulation.training.rounds):
        drawn, trained = c.drawn(t), {}
        for i in drawn:

            def loss(theta, x, y, i=i):
                """Nothing is drawn before a first mixture; with `directions`, a_i has not the length 1."""
                theta_i, a_i = flat(theta), flat(mixture[i] if pull == "mixture" else target[i])
                drawing = cosine(a_i, theta_i) * (1 if pull == "mixture" else a_i.norm())
                return plain(theta, x, y) - (lam * drawing if served[i] else 0)

            trained[i] = sgd(mixture[i], c.batches(i, t), loss)
        origin = {"last_round": mixture, "since_start": [c.start] * n}.get(similarity)
        compared = [flat(trained[i], names) - (flat(origin[i], names) if origin else 0) for i in drawn]
        s = torch.stack([torch.stack([cosine(a, b) for b in compared]) for a in compared])
        s = torch.where(s > threshold, 1.0, s)
        models, lengths = list(trained.values()), [flat(theta).norm() for theta in trained.values()]
        for row, i in enumerate(drawn):
            w = on_simplex(v(t, drawn, trained, s, c.weights(drawn))[row])
            graph[i] = similar[i] = 0.0
            graph[i, drawn], similar[i, drawn] = w, s[row]
            mixture[i], served[i] = mixed(w, models), True
            target[i] = mixed([w_j / length for w_j, length in zip(w, lengths, strict=True)], models)
    own = [{"theta": theta, "served": was} for theta, was in zip(mixture, served, strict=True)]
    if pull == "directions":
        own = [entries | {"target": a} for entries, a in zip(own, target, strict=True)]
    return {"graph": graph, "similarity": similar}, own


def state(c: Clients, alpha=0.8, **settings):
    return collaborate(c, lambda t, drawn, trained, s, p: p + s / (2 * alpha), **settings)
