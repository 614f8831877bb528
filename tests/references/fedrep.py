"""FedRep (Collins et al., ICML 2021, Algorithm 1): the head on a frozen extractor, then the extractor on that head."""

from references.clients import ETA, EXTRACTOR, HEAD, Clients, mixed, plain, sgd

SETTINGS = ({}, {"head_epochs": 3, "body_epochs": 1, "head_lr": 0.25})


def state(c: Clients, head_epochs=None, body_epochs=None, head_lr=ETA):
    phi, theta = {name: c.start[name] for name in EXTRACTOR}, [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        for i in drawn:
            fitted = sgd(theta[i] | phi, c.batches(i, t, head_epochs, "head"), plain, head_lr, HEAD)
            theta[i] = sgd(fitted, c.batches(i, t, body_epochs), names=EXTRACTOR)
        average = mixed(c.weights(drawn), [theta[i] for i in drawn])
        phi = {name: average[name] for name in EXTRACTOR}
    return {"theta": phi}, [{"theta": own} for own in theta]
