"""Local: every participant goes on training its own model; nothing is averaged."""

from references.clients import Clients, sgd

SETTINGS = ({},)


def state(c: Clients):
    theta = [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        for i in c.drawn(t):
            theta[i] = sgd(theta[i], c.batches(i, t))
    return {}, [{"theta": own} for own in theta]
