"""FedProx (Li et al., MLSys 2020, Eq. 2): local steps descend F_i(θ) + μ/2·‖θ − w‖²."""

from references.clients import Clients, mixed, plain, sgd

SETTINGS = ({}, {"mu": 0.8})


def state(c: Clients, mu=0.01):
    w = c.start
    for t in range(c.simulation.training.rounds):
        drawn, received = c.drawn(t), w

        def proximal(theta, x, y, w=received):
            return plain(theta, x, y) + mu / 2 * sum((theta[name] - w[name]).square().sum() for name in w)

        w = mixed(c.weights(drawn), [sgd(received, c.batches(i, t), proximal) for i in drawn])
    return {"theta": w}, []
