"""Decoders of representations, which make an autoencoder of an extractor.

A picture comes back through a layer and transposed convolutions (4×4, stride 2, ReLU between them), which mirror
convolutions with pooling; there are as many as leave a first picture of at least 4×4, four at most, and none for small
ones. A text comes back as its bag of words.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, conv_transpose2d, linear

from fedgrid.engine.local.client_data import TEXTUAL
from fedgrid.methods import Federation, Tree

Shapes = dict[str, tuple[int, ...]]
BLOCKS, SMALLEST = 4, 4


def initial(fed: Federation, channels: int) -> Tree:
    """Parameters ``decoder.modality.…`` (``decoder.…`` on plain data) for each modality, drawn as torch's layers do.

    `channels` are those before a picture's last convolution; each one before it has twice as many.
    """
    data, like, parameters = fed.simulation.data, fed.initial()["head.weight"], Tree()
    for network, _ in fed.modalities:
        of_texts: Shapes = {"first": (data.vocabulary, network.width)}
        of_pictures = _of_pictures(network.width, tuple(data.images.shape[1:]), channels)
        is_textual = data.holds_texts or network.modality == TEXTUAL
        for name, weight in (of_texts if is_textual else of_pictures).items():
            bias = weight[1 if len(weight) == 4 else 0]
            for kind, shape in (("weight", weight), ("bias", (bias,))):
                full = _named(network.modality, f"{name}.{kind}")
                unit = 2 * fed.random(full).random(shape, dtype="float32") - 1
                parameters[full] = like.new_tensor(unit / math.sqrt(math.prod(weight[1:])))
    return parameters


def reconstruction(theta: Tree, modality: str, z: Tensor, x: Tensor) -> Tensor:
    """Mean error (scalar) of decoding x from representations z [B, k]: squared, for pictures x [B, c, h, w].

    For texts x [B, words], it is the binary cross entropy, for each word of the vocabulary, of whether the text has it;
    padding is not predicted.
    """
    decoder = {name: t for name, t in theta.items() if name.startswith(_named(modality, ""))}
    out = linear(z, decoder[_named(modality, "first.weight")], decoder[_named(modality, "first.bias")])
    if not x.is_floating_point():
        counts = torch.zeros_like(out).scatter(1, x, 1.0)
        return binary_cross_entropy_with_logits(out[:, 1:], counts[:, 1:])
    blocks = len(decoder) // 2 - 1
    sides = [-(-side // 2**blocks) for side in x.shape[2:]]
    out = out.unflatten(1, (-1, *sides))
    for block in range(blocks):
        weight, bias = (decoder[_named(modality, f"block{block}.{kind}")] for kind in ("weight", "bias"))
        out = conv_transpose2d(out.relu(), weight, bias, stride=2, padding=1)
    return (out[:, :, : x.shape[2], : x.shape[3]] - x).square().mean()


def _of_pictures(width: int, shape: tuple[int, ...], channels: int) -> Shapes:
    """Shapes of the weights: of a layer [outputs, k], of transposed convolutions [before, after, 4, 4]."""
    colours, *sides = shape
    blocks = min(BLOCKS, max(0, (min(sides) // SMALLEST).bit_length() - 1))
    planes = [*(channels * 2**block for block in reversed(range(blocks))), colours]
    first = planes[0] * math.prod(-(-side // 2**blocks) for side in sides)
    shapes: Shapes = {"first": (first, width)}
    return shapes | {f"block{block}": (planes[block], planes[block + 1], 4, 4) for block in range(blocks)}


def _named(modality: str, name: str) -> str:
    return ".".join(("decoder", modality, name) if modality else ("decoder", name))
