"""FedAvg-FT: the global model is FedAvg's; the fine-tuned models are made for scoring alone and leave no state."""

from references import fedavg

SETTINGS = ({}, {"layers": "head", "finetune_epochs": 1})


def state(c, **fine_tuning):
    return fedavg.state(c)
