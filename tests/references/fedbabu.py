"""FedBABU (Oh et al., ICLR 2022, Algorithm 1): φ ← Σ p_i φ_i, trained under the head of θ⁰, which nobody changes.

Fine-tuning is for scoring alone and leaves no state.
"""

from references.clients import EXTRACTOR, HEAD, NAMES, Clients, mixed, sgd

SETTINGS = ({}, {"layers": "head", "finetune_epochs": 1}, {"layers": "body", "finetune_epochs": None})


def state(c: Clients, **fine_tuning):
    w = c.start
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        w = mixed(c.weights(drawn), [sgd(w, c.batches(i, t), names=EXTRACTOR) for i in drawn])
    return {"theta": w}, []


def used(c: Clients, server, own, layers="all", finetune_epochs=5):
    names, t = {"all": NAMES, "head": HEAD, "body": EXTRACTOR}[layers], c.simulation.training.rounds
    return [sgd(server["theta"], c.batches(i, t, finetune_epochs), names=names) for i in c.ids]
