"""Blocks of layers."""

from torch import nn

from fedgrid.models.common.norm import norm


def pooled_convolution(inputs: int, outputs: int, side: int, kind: str = "none", padding: int = 0) -> list[nn.Module]:
    """A convolution of `side`×`side` from `inputs` to `outputs` channels, normalisation, 2×2 max-pooling, ReLU.

    ReLU and max-pooling commute, bit for bit; pooling first leaves a quarter of the numbers to the ReLU.
    """
    return [nn.Conv2d(inputs, outputs, side, padding=padding), *norm(kind, outputs), nn.MaxPool2d(2), nn.ReLU()]
