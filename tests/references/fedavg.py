"""FedAvg (McMahan et al., AISTATS 2017, Algorithm 1): w ← Σ p_i θ_i over the participants, p_i by images."""

from references.clients import Clients, mixed, sgd

SETTINGS = ({},)


def state(c: Clients):
    w = c.start
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        w = mixed(c.weights(drawn), [sgd(w, c.batches(i, t)) for i in drawn])
    return {"theta": w}, []
