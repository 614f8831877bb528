"""FedAvg-FT: the global model is FedAvg's; the fine-tuned models begin from it and leave no state."""

from references import fedavg
from references.clients import HEAD, NAMES, sgd

SETTINGS = ({}, {"layers": "head", "finetune_epochs": 1})


def state(c, **fine_tuning):
    return fedavg.state(c)


def used(c, server, own, layers="all", finetune_epochs=None):
    names, t = {"all": NAMES, "head": HEAD}[layers], c.simulation.training.rounds
    return [sgd(server["theta"], c.batches(i, t, finetune_epochs), names=names) for i in c.ids]
