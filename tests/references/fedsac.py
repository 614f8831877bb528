"""FedSaC (Yan et al., ICML 2024, Eqs. 4–9): pFedGraph, whose row i of W minimises Σ_j (w_j − p_j)² + α·C_ij w_j −
β·S_ij w_j, with the overlap C_ij of the directions of two clients' features.
"""

import torch
from references.clients import Clients, features
from references.pfedgraph import collaborate

SETTINGS = (
    {},
    {"alpha": 0.5, "beta": 1.6, "until": 1.0, "lam": 0.3, "directions": 1, "centred": False},
    {"until": 0.5, "directions": 2, "similarity": "parameters", "layers": "linear"},
    {"angles": "greedy", "directions": 2, "similarity": "since_start", "pull": "directions", "lam": 0.5},
    {"lam": -0.3, "layers": "head"},
)


def span(z, directions, centred):
    """The first right singular vectors of features (Eq. 5), as many as there are, up to `directions`."""
    _, values, rows = torch.linalg.svd(z - z.mean(dim=0) if centred else z, full_matrices=False)
    rows = rows[values > 1e-9][:directions]
    return rows * rows.gather(1, rows.abs().argmax(dim=1, keepdim=True)).sign()  # whose largest entries are positive


def overlap(a, b, angles):
    """C of two clients: the cosine of the mean of their angles (Eqs. 6–7)."""
    cosines = torch.linalg.svdvals(a @ b.T) if angles == "principal" else taken(a @ b.T)
    return cosines.clamp(max=1).arccos().mean().cos() if len(cosines) else torch.tensor(0.0).double()


def taken(cosines):
    """The largest entry, and again without its row and column, as the authors' code takes them."""
    values = []
    for _ in range(min(cosines.shape)):
        i, j = divmod(int(cosines.argmax()), cosines.shape[1])
        values.append(cosines[i, j].clone())
        cosines[i, :] = cosines[:, j] = -2.0
    return torch.stack(values) if values else cosines.flatten()


def state(c: Clients, alpha=0.9, beta=1.4, directions=3, until=0.7, centred=True, angles="principal", **settings):
    complementary = torch.zeros(len(c.ids), len(c.ids)).double()

    def v(t, drawn, trained, s, p):
        spans = [span(features(trained[i], c.x[i]), directions, centred) for i in drawn]
        overlaps = torch.stack([torch.stack([overlap(a, b, angles) for b in spans]) for a in spans])
        overlaps.fill_diagonal_(1.0)
        complementary[drawn] = 0.0
        for row, i in enumerate(drawn):
            complementary[i, drawn] = overlaps[row]
        weight = alpha if t < until * c.simulation.training.rounds else 0.0
        return p - (weight * overlaps - beta * s) / 2

    server, own = collaborate(c, v, **settings)
    return server | {"complementarity": complementary}, own
