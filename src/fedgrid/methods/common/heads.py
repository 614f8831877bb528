"""Heads that the server trains."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fedgrid.engine.local.optimizers import Optimizer
from fedgrid.methods import Tree, cross_entropy
from fedgrid.models.base import Network


def fit(network: Network, head: Tree, z: Tensor, labels: Tensor, *, lr: float, size: int) -> Tree:
    """A pass of SGD down the cross entropy of representations z [m, k] with labels [m], `size` at a time, in order."""
    for some, of in zip(z.split(size), labels.split(size), strict=True):
        slope = torch.func.grad(lambda h, x=some, y=of: cross_entropy(network.head(h, x), y))(head)
        head = head - lr * slope
    return head


def learned(
    network: Network,
    head: Tree,
    z: Tensor,
    labels: Tensor,
    *,
    optimizer: Optimizer,
    epochs: Sequence[Tensor],
    size: int,
) -> Tree:
    """The head after training down the same loss by a fresh `optimizer`, on `size` representations at a time.

    `epochs` has the order of the representations, their positions [m], for each epoch.
    """
    head, taken = head.map(torch.clone), torch.zeros((), device=z.device)
    moments = optimizer.moments(head)
    for some in (part for order in epochs for part in order.split(size)):
        slope = torch.func.grad(lambda h, x=z[some], y=labels[some]: cross_entropy(network.head(h, x), y))(head)
        taken += 1
        optimizer.step(head, list(slope.values()), moments, taken)
    return head
