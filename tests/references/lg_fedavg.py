"""LG-FedAvg (Liang et al., arXiv 2001.01523): every client has its own extractor φ_i, and heads are averaged."""

from references.clients import HEAD, NAMES, Clients, mixed, sgd

SETTINGS = ({}, {"local_part": "nothing"}, {"local_part": "all"})


def state(c: Clients, local_part="extractor"):
    shared = {"extractor": HEAD, "nothing": NAMES, "all": []}[local_part]
    server, own = {name: c.start[name] for name in shared}, [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        for i in drawn:
            own[i] = sgd(own[i] | server, c.batches(i, t))
        average = mixed(c.weights(drawn), [own[i] for i in drawn])
        server = {name: average[name] for name in shared}
    return {"theta": server}, [{"theta": theta} for theta in own]
