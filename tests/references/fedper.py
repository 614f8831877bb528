"""FedPer (Arivazhagan et al., 2019): extractors are averaged, heads stay, and both are trained together."""

from references.clients import EXTRACTOR, NAMES, Clients, mixed, sgd

SETTINGS = ({}, {"local_part": "nothing"}, {"local_part": "all"})
MOMENTUM = 0.5
TRAINING = {"momentum": MOMENTUM}
SHARED = {"head": EXTRACTOR, "nothing": NAMES, "all": []}


def state(c: Clients, local_part="head"):
    return averaged(c, SHARED[local_part])


def averaged(c: Clients, shared):
    """All rounds in which the parameters of these names are averaged and all others stay."""
    phi, theta = {name: c.start[name] for name in shared}, [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        for i in drawn:
            theta[i] = sgd(theta[i] | phi, c.batches(i, t), momentum=MOMENTUM)
        average = mixed(c.weights(drawn), [theta[i] for i in drawn])
        phi = {name: average[name] for name in shared}
    return {"theta": phi}, [{"theta": own} for own in theta]
