"""FedProto (Tan et al., AAAI 2022, Algorithm 1): CE + λ·MSE(z, G_y); G_c is the mean of the clients' class means."""

from references.clients import Clients, class_means, features, mixed, pooled, pulled, sgd, table

SETTINGS = ({}, {"lam": 3.0, "weighting": "count"}, {"lam": 2.0, "average": True})


def state(c: Clients, lam=1.0, weighting="equal", average=False):
    w, theta, centres = c.start, [c.start] * len(c.ids), {}
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        for i in drawn:
            theta[i] = sgd(w if average else theta[i], c.batches(i, t), pulled(lam, centres))
        means = [class_means(features(theta[i], c.x[i]), c.y[i]) for i in drawn]
        # a class that nobody has this time keeps its mean
        centres = centres | pooled(means, [c.counts[i] for i in drawn] if weighting == "count" else None)
        w = mixed(c.weights(drawn), [theta[i] for i in drawn])
    server = {"prototypes": table(centres)} | ({"theta": w} if average else {})
    return server, [{"theta": own} for own in theta]
