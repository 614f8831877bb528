"""FedGH (Yi et al., ACM MM 2023, Algorithm 1): clients train (φ_i, π_G); the server fits π_G to their class means."""

import torch
from references.clients import HEAD, Clients, class_means, features, head, sgd
from torch.nn.functional import cross_entropy

SETTINGS = ({}, {"server_lr": 0.5, "server_passes": 3, "server_batch": 4})


def on_means(theta, z, y):
    return cross_entropy(head(theta, z), y)


def state(c: Clients, server_lr=0.1, server_passes=10, server_batch=10):
    theta, pi = [c.start] * len(c.ids), {name: c.start[name] for name in HEAD}
    for t in range(c.simulation.training.rounds):
        pairs = []
        for i in c.drawn(t):
            theta[i] = sgd(theta[i] | pi, c.batches(i, t))
            pairs += sorted(class_means(features(theta[i], c.x[i]), c.y[i]).items(), key=lambda pair: pair[0])
        labels, means = torch.tensor([label for label, _ in pairs]), torch.stack([mean for _, mean in pairs])
        for number in range(server_passes):
            order = torch.from_numpy(c.random(t, f"server {number}").permutation(len(pairs)))
            batches = [(means[some], labels[some]) for some in order.split(server_batch)]
            pi = sgd(pi, batches, on_means, server_lr, HEAD)
    return {"head": pi}, [{"theta": own} for own in theta]


def used(c: Clients, server, own, **_):
    return [entries["theta"] | server["head"] for entries in own]
