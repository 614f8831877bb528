"""Blocks of layers."""

from collections.abc import Iterable

from torch import nn

from fedgrid.models.common.norm import norm


def pooled_convolution(inputs: int, outputs: int, side: int, kind: str = "none", padding: int = 0) -> list[nn.Module]:
    """A convolution of `side`×`side` from `inputs` to `outputs` channels, normalisation, 2×2 max-pooling, ReLU.

    ReLU and max-pooling commute, bit for bit; pooling first leaves a quarter of the numbers to the ReLU.
    """
    return [nn.Conv2d(inputs, outputs, side, padding=padding), *norm(kind, outputs), nn.MaxPool2d(2), nn.ReLU()]


def flat_convolutions(
    shape: tuple[int, int, int], channels: Iterable[int], side: int, kind: str = "none", padding: int = 0
) -> tuple[list[nn.Module], int]:
    """A `pooled_convolution` to each of `channels`, flattened, and how many numbers it makes of an image of `shape`."""
    height, width, inputs = shape
    layers: list[nn.Module] = []
    for outputs in channels:
        layers += pooled_convolution(inputs, outputs, side, kind, padding)
        height, width = ((length + 2 * padding - side + 1) // 2 for length in (height, width))
        inputs = outputs
    return [*layers, nn.Flatten()], inputs * height * width
