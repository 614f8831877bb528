"""FedPCL (Tan et al., NeurIPS 2022): normalised features contrast with the global class means and with every client's.

Loss L_g + L_p of z·v/τ: L_g with G_c; L_p the mean over the clients' sets, where G_c stands for what a client lacks.
"""

import torch
from references.clients import Clients, class_means, contrasts, features, mean, mixed, plain, pooled, sgd, table, unit

SETTINGS = (
    {},
    {"temperature": 0.5, "exclude_positive": True, "with_ce": True, "contrast": 0.4},
    {"temperature": 1.0, "average": True},
)


def contrasting(centres, sets, temperature, contrast, exclude_positive, with_ce):
    def loss(theta, x, y):
        z = unit(features(theta, x))
        l_g = mean(contrasts(z, y, centres, temperature, exclude_positive))
        l_p = mean([mean(contrasts(z, y, centres | own, temperature, exclude_positive)) for own in sets])
        return contrast * (l_g + l_p) + (plain(theta, x, y) if with_ce else 0.0)

    return loss


def state(c: Clients, temperature=0.07, contrast=1.0, exclude_positive=False, with_ce=False, average=False):
    w, theta, centres, sets = c.start, [c.start] * len(c.ids), {}, [{} for _ in c.ids]
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        received = [own for own in sets if own]
        loss = contrasting(centres, received, temperature, contrast, exclude_positive, with_ce)
        for i in drawn:
            start = w if average else theta[i]
            # the first round only computes means, unless there is cross entropy to descend
            theta[i] = sgd(start, c.batches(i, t), loss) if centres or with_ce else start
        for i in drawn:
            sets[i] = class_means(unit(features(theta[i], c.x[i])), c.y[i])
        centres = centres | pooled([sets[i] for i in drawn])
        w = mixed(c.weights(drawn), [theta[i] for i in drawn])
    server = {"prototypes": table(centres), "sets": torch.stack([table(own) for own in sets])}
    if average:
        server["theta"] = w
    return server, [{"theta": own} for own in theta]
