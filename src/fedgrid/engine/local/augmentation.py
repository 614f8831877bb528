"""What is drawn of a training batch: how its images move, which caption of a text is read.

Each is the same function of a client's batch and key in both executors.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedgrid.engine.local.context import Batch, LossContext

PADDING = 4
"Pixels by which an image may move in each direction."


def augmented(batch: Batch, at: LossContext, number: int) -> Batch:
    """A batch with its images moved and mirrored; `number` is its place among the batches of a step."""
    if not batch.x.is_floating_point():  # tokens
        return batch
    return replace(batch, x=cropped_and_flipped(batch.x, at, f"augmentation {number}" if number else "augmentation"))


def captioned(batch: Batch, at: LossContext, number: int) -> Batch:
    """A batch of texts with one of their captions each, x [B, words]; `number` as in `augmented`."""
    chance = at.uniform(f"caption {number}", torch.empty_like(batch.y, dtype=torch.float32))
    chosen = (chance * batch.x.shape[1]).floor().long()[:, None, None]
    return replace(batch, x=batch.x.gather(1, chosen.expand(-1, 1, batch.x.shape[2]))[:, 0])


def cropped_and_flipped(x: Tensor, at: LossContext, purpose: str) -> Tensor:
    """Each image of a batch [B, channels, height, width] moved by up to 4 pixels and, one in two, mirrored.

    The usual augmentation of CIFAR (random crop of the image padded by 4, horizontal flip), as in FedSaC's code. What
    moves in has the mean colour, zero after normalisation, where torchvision's recipe has black.
    """
    batch, _, height, width = x.shape
    down, across, mirrored = at.uniform(purpose, x.new_empty(3, batch))
    span = 2 * PADDING + 1
    rows = torch.arange(height, device=x.device) + (down * span).floor().long()[:, None]
    columns = torch.arange(width, device=x.device) + (across * span).floor().long()[:, None]
    columns = torch.where(mirrored[:, None] < 0.5, columns, columns.flip(1))
    wide = pad(x, [PADDING] * 4)
    tall = wide.gather(2, rows[:, None, :, None].expand(-1, x.shape[1], -1, wide.shape[3]))
    return tall.gather(3, columns[:, None, None, :].expand(-1, x.shape[1], height, -1))
