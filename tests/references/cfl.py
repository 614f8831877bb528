"""CFL (Sattler et al., TNNLS 2021): a cluster is split if ‖Σ_j p_j Δ_j‖ < ε₁ and max_j ‖Δ_j‖ > ε₂.

It is cut by complete linkage on 1 − cos(Δ_i, Δ_j). A split needs updates of all members, so all always take part.
"""

from itertools import combinations
from statistics import median

import torch
from references.clients import Clients, flat, mixed, sgd

TRAINING = {"participation": 1.0, "rounds": 6}
SETTINGS = (
    {},
    {"bounds": "notebook", "eps1": 9.0, "eps2": 0.01, "t0": 2, "min_size": 2},
    {"bounds": "relative", "eps1": 0.9, "weighting": "equal"},
    {"bounds": "pfedgraph", "eps1": 9.0, "eps2": 0.1},
)
BOUNDS = {"notebook": (0.4, 1.6), "pfedgraph": (2.0, 2.5), "relative": (0.25, 0.8)}


def halves(updates):
    """Two groups of clients: the two closest groups are joined, by their farthest members, until two are left."""

    def distance(pair):
        return max(1 - float(torch.cosine_similarity(updates[i], updates[j], dim=0)) for i in pair[0] for j in pair[1])

    groups = [[i] for i in updates]
    while len(groups) > 2:
        first, second = min(combinations(groups, 2), key=distance)
        groups = [group for group in groups if group not in (first, second)] + [first + second]
    return groups


def state(c: Clients, bounds="relative", eps1=None, eps2=None, t0=None, min_size=3, weighting="count"):
    rounds = c.simulation.training.rounds
    first = t0 if t0 is not None else 0 if bounds == "pfedgraph" else 20 if rounds >= 50 else int(0.4 * rounds)
    eps1, eps2 = (usual if own is None else own for own, usual in zip((eps1, eps2), BOUNDS[bounds], strict=True))
    models, cluster, longest = [c.start], [0] * len(c.ids), []
    for t in range(rounds):
        drawn = c.drawn(t)
        updates = {i: mixed([1, -1], [sgd(models[cluster[i]], c.batches(i, t)), models[cluster[i]]]) for i in drawn}
        vectors = {i: flat(update) for i, update in updates.items()}
        norms = {i: float(vector.norm()) for i, vector in vectors.items()}

        def shares(members):
            return c.weights(members) if weighting == "count" else [1 / len(members)] * len(members)

        unit = median(longest[:first]) if bounds == "relative" and longest else 1.0
        longest.append(max(norms.values()))
        for number in range(len(models)) if t >= first else ():
            members = [i for i in drawn if cluster[i] == number]
            mean = mixed(shares(members), [updates[i] for i in members])
            rests = float(flat(mean).norm()) < eps1 * unit
            if len(members) >= min_size and rests and max(norms[i] for i in members) > eps2 * unit:
                leaves = max(halves({i: vectors[i] for i in members}), key=min)
                models.append(models[number])
                cluster = [len(models) - 1 if i in leaves else old for i, old in enumerate(cluster)]
        for number, model in enumerate(models):
            members = [i for i in drawn if cluster[i] == number]
            models[number] = mixed([1, *shares(members)], [model, *(updates[i] for i in members)])
    stacked = {name: torch.stack([model[name] for model in models]) for name in c.start}
    server = {"models": stacked, "cluster": torch.tensor(cluster)}
    return server | ({"largest": torch.tensor(longest[:first], dtype=torch.float64)} if first else {}), []


def used(c: Clients, server, own, **_):
    return [{name: t[k] for name, t in server["models"].items()} for k in server["cluster"]]
