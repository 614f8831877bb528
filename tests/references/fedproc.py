"""FedProc (Mu et al., Future Generation Computer Systems 2023): α_t·CE + (1 − α_t)·L_gpc, the contrast with centres."""

from references.clients import Clients, class_means, contrasts, features, mean, mixed, plain, pooled, sgd, table
from references.clients import unit as direction

SETTINGS = ({}, {"temperature": 0.3, "until": 3, "unit": False})


def contrasting(centres, share, temperature):
    """L_gpc = log Σ_c e^{cos(z, G_c)/τ} − cos(z, G_y)/τ."""
    directions = {label: direction(centre) for label, centre in centres.items()}

    def loss(theta, x, y):
        values = contrasts(direction(features(theta, x)), y, directions, temperature)
        return share * plain(theta, x, y) + (1 - share) * mean(values)

    return loss


def state(c: Clients, temperature=0.1, until=None, unit=True):
    w, centres = c.start, {}
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        share = min(t / (until or c.simulation.training.rounds), 1.0) if centres else 1.0
        loss = contrasting(centres, share, temperature)
        theta = {i: sgd(w, c.batches(i, t), loss) for i in drawn}
        z = {i: features(theta[i], c.x[i]) for i in drawn}
        means = [class_means(direction(z[i]) if unit else z[i], c.y[i]) for i in drawn]
        centres = centres | pooled(means, [c.counts[i] for i in drawn])
        w = mixed(c.weights(drawn), list(theta.values()))
    return {"theta": w, "prototypes": table(centres)}, []
