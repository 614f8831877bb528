"""Losses on images that a partition holds out for validation."""

import torch

from fedgrid.methods import Batch, Federation, LossContext, Tensor, Tree, counts_filled


def held_out_losses(fed: Federation, theta: Tree) -> Tensor:
    """The mean cross entropy of a stack [n] on each client's held-out images or, without any, on its training images.

    Float64.
    """
    lists = fed.simulation.data.validation
    held_out = fed.weights.new_tensor([len(lists[i]) if lists else 0 for i in fed.numbers])
    training = held_out if held_out.all() else fed.measure(theta, summed_loss).loss / fed.counts.sum(dim=1)
    if not held_out.any():
        return training
    validation = fed.test(theta, summed_loss, images="validation").loss / held_out.clamp(min=1)
    return torch.where(held_out > 0, validation, training)


@counts_filled
def summed_loss(theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
    """The summed cross entropy of a client's images, float64."""
    logarithms = at.model(theta, batch.x).double().log_softmax(dim=1)
    return {"loss": batch.only_counted(-logarithms.gather(1, batch.y.unsqueeze(1)).squeeze(1)).sum()}
