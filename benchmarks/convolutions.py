"""The convolution of stacked clients alone, whose weights differ: three ways to compute it, forward and backward.

``python -m benchmarks.convolutions '{"device": "cuda"}'`` serves: a line {layer, clients, lowering, precision} is
answered with the seconds of each of `PASSES`.
"""

import json
import math
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from benchmarks.processes import serve
from fedgrid.engine.local.devices import now

LAYERS = {"second": (32, 64, 14), "first": (3, 32, 32)}
"Of the two-block CNN: channels that go in, channels that come out, side of the images that go in."
SIDE, BATCH = 5, 16
"Of a filter; images of each client."
PRECISIONS = ("float32", "TF32")
PASSES = ("forward", "input_gradient", "weight_gradient")
REPEATS, LEAST = 5, 0.01
"Blocks of calls, whose median is the result, and the seconds of a block."

Pass = Callable[[Tensor, Tensor, Tensor], Tensor]
"(images x [k, B, C, h, w], filters [k, D, C, 5, 5], gradient of the output [k, B, D, h − 4, w − 4]) → its result."


@dataclass(frozen=True)
class Lowering:
    """One way to compute the passes of k clients; what it copies to do so is part of it."""

    forward: Pass
    input_gradient: Pass
    weight_gradient: Pass


def _backward(mask: list[bool], x: Tensor, filters: Tensor, gradient: Tensor, groups: int = 1) -> Tensor:
    """The gradient that `mask` chooses, of images or of filters, of one grouped convolution."""
    shape: tuple[Any, ...] = ([1, 1], [0, 0], [1, 1], False, [0, 0])  # stride, padding, dilation, transposed, padding
    gradients = torch.ops.aten.convolution_backward(gradient, x, filters, None, *shape, groups, [*mask, False])
    return gradients[mask.index(True)]


IMAGES, FILTERS = [True, False], [False, True]
VMAPPED = Lowering(
    forward=torch.vmap(lambda x, filters, gradient: conv2d(x, filters)),
    input_gradient=torch.vmap(partial(_backward, IMAGES)),
    weight_gradient=torch.vmap(partial(_backward, FILTERS)),
)
"What torch.vmap makes of it, as fedgrid does: a grouped convolution, with a group for each client."


def _merged(images: Tensor) -> Tensor:
    """Images [k, B, C, h, w] as [B, k·C, h, w], channels last."""
    return images.transpose(0, 1).flatten(1, 2).contiguous(memory_format=torch.channels_last)


def _filters(filters: Tensor) -> Tensor:
    """Filters of all clients [k·D, C, 5, 5], channels last."""
    return filters.flatten(0, 1).contiguous(memory_format=torch.channels_last)


def _apart(images: Tensor, clients: int) -> Tensor:
    """The inverse of `_merged`."""
    return images.unflatten(1, (clients, -1)).transpose(0, 1)


def _merged_backward(mask: list[bool], x: Tensor, filters: Tensor, gradient: Tensor) -> Tensor:
    clients = len(x)
    result = _backward(mask, _merged(x), _filters(filters), _merged(gradient), clients)
    return _apart(result, clients) if mask == IMAGES else result.unflatten(0, (clients, -1))


CHANNELS_LAST = Lowering(
    forward=lambda x, filters, gradient: _apart(conv2d(_merged(x), _filters(filters), groups=len(x)), len(x)),
    input_gradient=partial(_merged_backward, IMAGES),
    weight_gradient=partial(_merged_backward, FILTERS),
)
"The same grouped convolution, with channels last."


def _columns(images: Tensor) -> Tensor:
    """What each filter sees at each place: [k, B·places, C·25] of images [k, B, C, h, w]."""
    patches = images.unfold(3, SIDE, 1).unfold(4, SIDE, 1)
    return patches.permute(0, 1, 3, 4, 2, 5, 6).flatten(4).flatten(1, 3)


def _product(x: Tensor, filters: Tensor) -> Tensor:
    """The convolution as one batched matrix product."""
    places = [side - SIDE + 1 for side in x.shape[3:]]
    return (_columns(x) @ filters.flatten(2).mT).unflatten(1, (x.shape[1], *places)).permute(0, 1, 4, 2, 3)


def _product_of_gradient(x: Tensor, filters: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of the images: a convolution too, of the output's gradient with the filters turned round."""
    return _product(pad(gradient, [SIDE - 1] * 4), filters.flip(3, 4).transpose(1, 2))


def _product_for_filters(x: Tensor, filters: Tensor, gradient: Tensor) -> Tensor:
    return (gradient.permute(0, 1, 3, 4, 2).flatten(1, 3).mT @ _columns(x)).view_as(filters)


PRODUCTS = Lowering(
    forward=lambda x, filters, gradient: _product(x, filters),
    input_gradient=_product_of_gradient,
    weight_gradient=_product_for_filters,
)
"Gathers what the filters see, then multiplies matrices."

LOWERINGS = {"vmapped": VMAPPED, "channels last": CHANNELS_LAST, "matrix product": PRODUCTS}


def inputs(layer: str, clients: int, device: str, kind: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Drawn images, filters and gradient of the output, as a `Pass` takes them."""
    channels, filters, side = LAYERS[layer]
    random = torch.Generator().manual_seed(0)
    left = side - SIDE + 1
    shapes = ((BATCH, channels, side, side), (filters, channels, SIDE, SIDE), (BATCH, filters, left, left))
    x, w, gradient = (torch.randn(clients, *shape, generator=random, dtype=kind).to(device) for shape in shapes)
    return x, w, gradient


def measured(layer: str, clients: int, lowering: str, precision: str, device: str) -> dict[str, float]:
    """Seconds of one call of each pass, by its name."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "TF32"
    torch.backends.cudnn.deterministic = True  # as in a cell
    arguments = inputs(layer, clients, device)
    passes = LOWERINGS[lowering]
    return {name: timed(partial(getattr(passes, name), *arguments), torch.device(device)) for name in PASSES}


@torch.no_grad()
def timed(call: Callable[[], Any], device: torch.device) -> float:
    """Seconds of a call: the median of some blocks of calls, after two that warm up."""

    def block(calls: int) -> float:
        start = now(device)
        for _ in range(calls):
            call()
        return (now(device) - start) / calls

    block(1)
    calls = math.ceil(LEAST / block(1))
    return statistics.median(block(calls) for _ in range(REPEATS))


def main() -> None:
    torch.set_num_threads(1)
    job: dict[str, Any] = json.loads(sys.argv[1])
    serve(lambda **question: measured(**question, device=job["device"]))


if __name__ == "__main__":
    main()
