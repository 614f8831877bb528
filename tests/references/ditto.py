"""Ditto (Li et al., ICML 2021, Algorithm 1): the global model is FedAvg's, and v descends CE + λ/2·‖v − w‖²."""

from references.clients import Clients, mixed, plain, sgd

MODEL = "personal"
SETTINGS = ({}, {"lam": 0.5, "personal_epochs": 1})


def state(c: Clients, lam=1.0, personal_epochs=None):
    w, v = c.start, [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, received = c.drawn(t), w

        def proximal(theta, x, y, w=received):
            return plain(theta, x, y) + lam / 2 * sum((theta[name] - w[name]).square().sum() for name in w)

        for i in drawn:
            v[i] = sgd(v[i], c.batches(i, t, personal_epochs), proximal)
        w = mixed(c.weights(drawn), [sgd(received, c.batches(i, t)) for i in drawn])
    return {"theta": w}, [{"personal": personal} for personal in v]
