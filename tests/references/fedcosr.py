"""FedCoSR (Huang et al., Algorithm 1, Eqs. 3–15): blending by τ = exp(−γ·L_Reg), then CE + α·InfoNCE against G."""

from math import exp, nan

import torch
from references.clients import (
    CLASSES,
    EXTRACTOR,
    NAMES,
    Clients,
    class_means,
    contrasts,
    features,
    mean,
    mixed,
    plain,
    pooled,
    sgd,
    table,
    unit,
)

SETTINGS = (
    {},
    {"alpha": 0.7, "gamma": 0.3, "temperature": 0.3, "separate": False, "lost_uploads": 0.6},
    {"local_aggregation": False, "lost_uploads": 1.0},
    {"contrast": False, "clip_params": True},
)


def nce(theta, x, y, centres, temperature):
    """Eqs. 12–13, of every sample whose class is known."""
    bank = {label: unit(centre) for label, centre in centres.items()}
    return contrasts(unit(features(theta, x)), y, bank, temperature)


def blended(c, i, theta, regularity, phi, centres, gamma, temperature, local_aggregation):
    """Eqs. 7–9."""
    if regularity is None:  # no training has measured it
        regularity = float(mean(nce(theta, c.x[i], c.y[i], centres, temperature)))
    tau = exp(-gamma * regularity) if local_aggregation else 0.0
    return theta | {name: tau * theta[name] + (1 - tau) * phi[name] for name in phi}


def trained(theta, batches, epochs, centres, alpha, temperature):
    """θ, and the mean contrast over the last epoch, each batch's before its step; none if no class was known."""
    values = []

    def loss(theta, x, y):
        return plain(theta, x, y) + alpha * mean(nce(theta, x, y, centres, temperature))

    for number, batch in enumerate(batches):
        if number >= len(batches) * (epochs - 1) // epochs:
            values += nce(theta, *batch, centres, temperature)
        theta = sgd(theta, [batch], loss)
    return theta, float(mean(values)) if values else None


def state(
    c: Clients,
    alpha=1.0,
    gamma=0.8,
    temperature=0.1,
    local_aggregation=True,
    separate=True,
    contrast=True,
    clip_params=False,
    lost_uploads=0.0,
):
    shared = EXTRACTOR if separate else NAMES
    phi, centres = {name: c.start[name] for name in shared}, {}
    theta, last = [c.start] * len(c.ids), [None] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        for i in drawn:
            theta[i], last[i] = trained(
                blended(c, i, theta[i], last[i], phi, centres, gamma, temperature, local_aggregation),
                c.batches(i, t),
                c.simulation.training.local_epochs,
                centres,
                alpha if contrast else 0.0,
                temperature,
            )
            if clip_params:
                theta[i] = {name: x.clamp(0, 1) for name, x in theta[i].items()}
        draws = c.random(t, "lost uploads").random(len(drawn))
        arrived = [i for i, draw in zip(drawn, draws, strict=True) if draw >= lost_uploads or draw == draws.max()]
        average = mixed(c.weights(arrived), [theta[i] for i in arrived])  # Eq. 5
        phi = {name: average[name] for name in shared}
        means = [class_means(features(theta[i], c.x[i]), c.y[i]) for i in arrived]
        centres = centres | pooled(means, [c.counts[i] for i in arrived])  # Eq. 6
    known = torch.tensor([label in centres for label in range(CLASSES)])
    regularity = [torch.tensor(nan if value is None else value, dtype=torch.float64) for value in last]
    own = [{"theta": model, "regularity": value} for model, value in zip(theta, regularity, strict=True)]
    return {"theta": phi, "prototypes": table(centres), "known": known}, own


def used(c: Clients, server, own, gamma=0.8, temperature=0.1, local_aggregation=True, **_):
    centres = {label: server["prototypes"][label] for label in server["known"].nonzero().flatten().tolist()}
    last = [None if entries["regularity"].isnan() else float(entries["regularity"]) for entries in own]
    return [
        blended(c, i, own[i]["theta"], last[i], server["theta"], centres, gamma, temperature, local_aggregation)
        for i in c.ids
    ]
