"""Layers that stand together."""

from torch import nn

from fedgrid.models.common.norm import norm


def pooled_convolution(before: int, after: int, side: int, kind: str = "none", padding: int = 0) -> list[nn.Module]:
    """A convolution of `side`×`side` from `before` to `after` channels, normalisation, 2×2 max-pooling, ReLU.

    ReLU and max-pooling commute, bit for bit; pooling first leaves a quarter of the numbers to the ReLU.
    """
    return [nn.Conv2d(before, after, side, padding=padding), *norm(kind, after), nn.MaxPool2d(2), nn.ReLU()]
