"""FedCRL (Huang et al., arXiv 2404.17916, 2024, Algorithm 1), whose equations are those of FedCoSR (Eqs. 3–15).

φ̂_i = τ_i φ_i + (1 − τ_i) φ with τ_i = exp(−γ·L_i), L_i the client's last contrast with the global class means.
"""

import math

import torch
from references.clients import (
    CLASSES,
    EXTRACTOR,
    NAMES,
    WIDTH,
    Clients,
    class_means,
    contrasted,
    features,
    mixed,
    plain,
    sgd,
)

SETTINGS = (
    {},
    {"alpha": 2.0, "gamma": 3.0, "temperature": 0.5, "lost_uploads": 0.4},
    {"separate": False, "contrast": False},
    {"local_aggregation": False},
)


def state(
    c: Clients,
    alpha=1.0,
    gamma=0.8,
    temperature=0.1,
    local_aggregation=True,
    separate=True,
    contrast=True,
    lost_uploads=0.0,
):
    names = EXTRACTOR if separate else NAMES
    shared, theta = {name: c.start[name] for name in names}, [c.start] * len(c.ids)
    regularity, known = [math.nan] * len(c.ids), {}
    epochs = c.simulation.training.local_epochs
    for t in range(c.simulation.training.rounds):
        drawn, sums = c.drawn(t), {}
        received, means = shared, dict(known)

        def values(theta, x, y, means=means):
            vectors, classes = torch.stack(list(means.values())), torch.tensor(list(means))
            return contrasted(features(theta, x), y, vectors, classes, temperature)

        def loss(theta, x, y, values=values, weight=alpha if contrast and means else 0.0):
            compared = values(theta, x, y) if weight else []
            return plain(theta, x, y) + (weight * compared.mean() if len(compared) else 0.0)

        for i in drawn:
            if means:
                if math.isnan(regularity[i]):
                    regularity[i] = float(values(theta[i], c.x[i], c.y[i]).mean())
                # a client without any of the known classes has nothing to contrast with
                trust = 1.0 if math.isnan(regularity[i]) else math.exp(-gamma * regularity[i])
                trust = trust if local_aggregation else 0.0
                blend = mixed([trust, 1 - trust], [{name: theta[i][name] for name in names}, received])
                theta[i] = {**theta[i], **blend}
            batches, of_epoch = c.batches(i, t), []
            for number, batch in enumerate(batches):
                if means and number >= len(batches) * (epochs - 1) // epochs:
                    of_epoch.append(values(theta[i], *batch))
                theta[i] = sgd(theta[i], [batch], loss)
            regularity[i] = float(torch.cat(of_epoch).mean()) if of_epoch else math.nan
            own = class_means(features(theta[i], c.x[i]), c.y[i])
            sums[i] = {j: c.counts[i, j] * mean for j, mean in own.items()}
        draws = c.random(t, "lost uploads").random(len(drawn))
        arrived = [i for i, draw in zip(drawn, draws, strict=True) if draw >= min(lost_uploads, draws.max())]
        shared = mixed(c.weights(arrived), [{name: theta[i][name] for name in names} for i in arrived])
        for j in range(CLASSES):
            sent = [i for i in arrived if j in sums[i]]
            if sent:
                known[j] = sum(sums[i][j] for i in sent) / sum(c.counts[i, j] for i in sent)
    zero = torch.zeros(WIDTH, dtype=torch.float64)
    prototypes = torch.stack([known.get(j, zero) for j in range(CLASSES)])
    server = {"theta": shared, "prototypes": prototypes, "known": torch.tensor([j in known for j in range(CLASSES)])}
    return server, [{"theta": theta[i], "regularity": torch.tensor(regularity[i], dtype=torch.float64)} for i in c.ids]
