"""FedPAC (Xu et al., ICLR 2023, Algorithm 1): features are pulled to G_y, heads are combined by the α of Eq. 10.

α minimises Σ_j v_j α_j² + ‖Σ_j α_j (H_i − H_j)‖² over the simplex, found by going through all supports.
"""

from itertools import combinations

import torch
from references.clients import (
    EXTRACTOR,
    HEAD,
    Clients,
    class_means,
    features,
    mixed,
    plain,
    pooled,
    pulled,
    sgd,
    table,
)

SETTINGS = (
    {},
    {"lam": 2.0, "head_epochs": 3, "head_lr": 0.3, "body_epochs": 1, "cutoff": 0.3},
    {"combine": False},
)


def smallest_on_simplex(programme):
    """argmin αᵀPα: on its support A, P_A α = ν·1 and Σα = 1."""
    best = (float("inf"), [])
    size = len(programme)
    # fedgrid's ridge, which makes the minimum unique and otherwise moves it in the tenth digit
    programme = programme + 1e-10 * programme.max() * torch.eye(size, dtype=torch.float64)
    for support in (list(some) for m in range(1, size + 1) for some in combinations(range(size), m)):
        m = len(support)
        system, right = torch.ones(m + 1, m + 1).double(), torch.zeros(m + 1).double()
        system[:m, :m], system[m, m], right[m] = programme[support][:, support], 0.0, 1.0
        alpha = torch.zeros(size).double()
        alpha[support] = torch.linalg.solve(system, right)[:m]
        if (alpha >= 0).all():
            best = min(best, (float(alpha @ programme @ alpha), alpha.tolist()))
    return torch.tensor(best[1], dtype=torch.float64)


def statistics(c, i, theta):
    """H_i [C·k], v_i and the class means of a model."""
    z = features(theta, c.x[i])
    means = class_means(z, c.y[i])
    h = table({label: c.counts[i, label] / c.n[i] * mean for label, mean in means.items()})
    return h.flatten(), (z.square().sum() / c.n[i] - h.square().sum()) / c.n[i], means


def combined(h, v, heads, i, cutoff):
    """Σ_j α_j π_j of client i, the i-th of those that took part."""
    delta = torch.stack([h[i] - other for other in h])
    alpha = smallest_on_simplex(torch.diag(torch.stack(v)) + delta @ delta.T)
    alpha[(alpha < cutoff) & (alpha < alpha.max())] = 0
    return mixed(alpha / alpha.sum(), heads)


def state(c: Clients, lam=1.0, head_epochs=1, head_lr=0.1, body_epochs=None, cutoff=0.001, combine=True):
    phi, theta, centres = {name: c.start[name] for name in EXTRACTOR}, [c.start] * len(c.ids), {}
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        h, v, before = zip(*(statistics(c, i, theta[i] | phi) for i in drawn), strict=True)
        for i, own in zip(drawn, before, strict=True):
            fitted = sgd(theta[i] | phi, c.batches(i, t, head_epochs, "head"), plain, head_lr, HEAD)
            targets = own | centres if centres else {}
            theta[i] = sgd(fitted, c.batches(i, t, body_epochs), pulled(lam, targets), names=EXTRACTOR)
        means = [class_means(features(theta[i], c.x[i]), c.y[i]) for i in drawn]
        centres = centres | pooled(means, [c.counts[i] for i in drawn])
        average = mixed(c.weights(drawn), [theta[i] for i in drawn])
        phi = {name: average[name] for name in EXTRACTOR}
        heads = [{name: theta[i][name] for name in HEAD} for i in drawn]
        for place, i in enumerate(drawn if combine else []):
            theta[i] = theta[i] | combined(h, v, heads, place, cutoff)
    return {"theta": phi, "prototypes": table(centres)}, [{"theta": own} for own in theta]
