"""The inputs of one client's loss, step or measurement besides θ: a batch, and constants."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedgrid.models.base import Network
from fedgrid.randomness import uniform
from fedgrid.tree import Tree

Objective = Tensor | tuple[Tensor, Mapping[str, tuple[Tensor, Tensor]]]
"A loss, and perhaps named running quantities as (sum over samples, number of samples)."


@dataclass(frozen=True)
class Batch:
    """Images x [B, channels, height, width], normalised, and labels y [B] of one client.

    Of a client that holds texts, x are tokens [B, words], in passes without training [B, captions, words].
    """

    x: Tensor
    y: Tensor
    counted: Tensor | None = None
    "Where some images only fill up a batch: truth values [B], False for those; see `counts_filled`."

    def only_counted(self, values: Tensor) -> Tensor:
        """Values [B, …], one for each image, with zeros for images that only fill up the batch."""
        if self.counted is None:
            return values
        return torch.where(self.counted.reshape(-1, *[1] * (values.dim() - 1)), values, 0)


@dataclass(frozen=True)
class LossContext:
    """What a loss may read besides θ and the batch: constants, without gradients.

    `server` is the same for all clients; `client` is this client's row of what differs by client. They are the state of
    the round, with what a call adds by name. Several batches of one step share `key`.
    """

    model: Network
    server: Tree
    client: Tree
    key: int | Tensor | None
    "What a batch's random numbers in training start from: a function of client, round, epoch and batch alone."

    def uniform(self, purpose: str, like: Tensor) -> Tensor:
        """Random numbers in [0, 1) in the shape and type of `like`, for noise in training; each `purpose` has its own.

        Raises ValueError in measurements and predictions.
        """
        if self.key is None:
            raise ValueError("measurements and predictions are not random: at.uniform is for losses and steps")
        return uniform(self.key, purpose, like)
