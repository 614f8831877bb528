"""Normalisation inside an extractor, as pure functions of parameters.

Batch norm's statistics are entries of θ like any other: they travel, are averaged and are counted with the layer that
they belong to. They are not trained; the engine measures them after local training (`Federation.train`).
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

KINDS = ("none", "batch", "group")


class BatchNorm(nn.Module):
    """Batch norm of [B, width, …]: by the batch's own statistics in training, by those in θ otherwise.

    A batch with one value a channel has no variance and is normalised by θ's statistics too.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width))
        self.register_buffer("running_mean", torch.empty(width))
        self.register_buffer("running_var", torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x[:, 0].numel() > 1:
            return batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        # θ may be a variable as a whole; an average that extrapolates may leave a variance below 0
        mean, variance = self.running_mean.detach(), self.running_var.detach().clamp(min=0)
        return batch_norm(x, mean, variance, self.weight, self.bias, eps=self.eps)


class GroupNorm(nn.GroupNorm):
    """Group norm of [B, width, …]; a batch with one value a group, which torch refuses, becomes the bias."""

    def forward(self, x: Tensor) -> Tensor:
        def normalised(x: Tensor) -> Tensor:
            return torch.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

        try:
            return normalised(x)
        except RuntimeError:  # in stacks of clients torch asks for the memory format of pictures, and cannot tell it
            return normalised(x.flatten(2)).reshape(x.shape)


def norm(kind: str, width: int) -> list[nn.Module]:
    """The layer (or none) that normalises `width` channels."""
    kinds: dict[str, list[nn.Module]] = {
        "none": [],
        "batch": [BatchNorm(width)],
        "group": [GroupNorm(math.gcd(8, width), width)],
    }
    return kinds[kind]


def is_statistic(name: str) -> bool:
    """Whether an entry of θ is a statistic of images and not a parameter."""
    return name.endswith((".running_mean", ".running_var"))


def named_layers(module: nn.Module, part: str) -> dict[str, BatchNorm]:
    """The batch-norm layers of a part of θ, by their full names."""
    return {f"{part}.{name}": layer for name, layer in module.named_modules() if isinstance(layer, BatchNorm)}


def noting(name: str, moments: dict[str, Tensor]) -> Callable[[BatchNorm, tuple[Tensor, ...]], None]:
    """A hook that puts the first two moments of what a layer sees into `moments`."""

    def hook(layer: BatchNorm, inputs: tuple[Tensor, ...]) -> None:
        values = inputs[0].type_as(layer.running_mean).transpose(0, 1).flatten(1)  # bfloat16 would cancel
        moments[f"{name}.running_mean"] = values.mean(dim=1)
        moments[f"{name}.running_var"] = values.square().mean(dim=1)

    return hook


def variances(moments: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Statistics from first and second moments."""

    def variance(name: str) -> Tensor:
        return (moments[name] - moments[name.replace("running_var", "running_mean")].square()).clamp(min=0)

    return {name: variance(name) if name.endswith("running_var") else t for name, t in moments.items()}
