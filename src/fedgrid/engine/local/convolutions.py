"""Convolutions of clients that each have filters of their own, as matrix products, for a GPU.

torch.vmap makes one grouped convolution of them, which on a GPU takes up to seven times as long as one batched product
of the filters with what each of them sees (benchmarks/results/nvidia-h200-bench-gpu.md). So the convolution and the
gradient of the filters are products here; the gradient of the images stays grouped, which is faster than either way to
add up what was gathered. A convolution and its two gradients are linear in both arguments, and the derivatives of each
of the three are the other two, so that they can be differentiated as often as a method likes.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor
from torch.nn.functional import adaptive_avg_pool2d, pad
from torch.nn.grad import conv2d_input
from torch.overrides import TorchFunctionMode

MOST_GATHERED = 2**31
"Bytes of what the filters of a call see, of which there is one copy at a time; larger calls stay as they are."


class Form(NamedTuple):
    """A convolution of images [K, B, C, H, W] of K clients with filters [K, D, C, h, w]."""

    images: tuple[int, int]
    "H, W."
    filters: tuple[int, int]
    "h, w."
    stride: tuple[int, int]
    padding: tuple[int, int]


def _seen(x: Tensor, form: Form) -> Tensor:
    """What a filter sees at each place: [K, B·places, h·w·C] of images [K, B, C, H, W]."""
    (h, w), (down, right), (rows, columns) = form.filters, form.stride, form.padding
    if rows or columns:
        x = pad(x, [columns, columns, rows, rows])
    windows = x.unfold(3, h, down).unfold(4, w, right)  # [K, B, C, places down, places right, h, w]
    return windows.permute(0, 1, 3, 4, 5, 6, 2).flatten(4).flatten(1, 3)


def _matrix(filters: Tensor) -> Tensor:
    """Filters [K, D, C, h, w] as [K, D, h·w·C]."""
    return filters.permute(0, 1, 3, 4, 2).flatten(2)


def _unflat(t: Tensor, axis: int, *sizes: int) -> Tensor:
    """A tensor one of whose axes is taken apart."""
    return torch.unflatten(t, axis, sizes)


class _ByClient(torch.autograd.Function):
    """A function of two tensors with a client axis, which torch.vmap merges with its own."""

    @classmethod
    def of(cls, first: Tensor, second: Tensor, form: Form) -> Tensor:
        """Its value, which can be differentiated."""
        value: Tensor = cls.apply(first, second, form)  # type: ignore[no-untyped-call]
        return value

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        first, second, ctx.form = inputs
        ctx.save_for_backward(first, second)

    @classmethod
    def vmap(cls, info: Any, dims: Sequence[int | None], first: Tensor, second: Tensor, form: Form) -> Any:
        def merged(t: Tensor, dim: int | None) -> Tensor:
            stacked = t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0)
            return stacked.flatten(0, 1)

        result = cls.of(merged(first, dims[0]), merged(second, dims[1]), form)
        return _unflat(result, 0, info.batch_size, -1), 0


class Convolved(_ByClient):
    """(images, filters) → [K, B, D, places down, places right]."""

    @staticmethod
    def forward(x: Tensor, filters: Tensor, form: Form) -> Tensor:
        places = [
            (side + 2 * more - size) // step + 1
            for side, size, step, more in zip(form.images, form.filters, form.stride, form.padding, strict=True)
        ]
        return _unflat(_seen(x, form) @ _matrix(filters).mT, 1, x.shape[1], *places).permute(0, 1, 4, 2, 3)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, filters = ctx.saved_tensors
        return _needed(ctx, (ImageGradient, slope, filters), (FilterGradient, x, slope))


class ImageGradient(_ByClient):
    """(gradient of the result, filters) → gradient of the images."""

    @staticmethod
    def forward(slope: Tensor, filters: Tensor, form: Form) -> Tensor:
        clients, images = slope.shape[:2]
        size = (images, clients * filters.shape[2], *form.images)
        together = slope.transpose(0, 1).flatten(1, 2)
        options = {"stride": form.stride, "padding": form.padding, "groups": clients}
        return _unflat(conv2d_input(size, filters.flatten(0, 1), together, **options), 1, clients, -1).transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        of_result, filters = ctx.saved_tensors
        return _needed(ctx, (Convolved, slope, filters), (FilterGradient, slope, of_result))


class FilterGradient(_ByClient):
    """(images, gradient of the result) → gradient of the filters."""

    @staticmethod
    def forward(x: Tensor, slope: Tensor, form: Form) -> Tensor:
        product = slope.permute(0, 2, 1, 3, 4).flatten(2) @ _seen(x, form)
        return _unflat(product, 2, *form.filters, x.shape[2]).permute(0, 1, 4, 2, 3)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, of_result = ctx.saved_tensors
        return _needed(ctx, (ImageGradient, of_result, slope), (Convolved, x, slope))


Applied = tuple[type[_ByClient], Tensor, Tensor]
"A function and what it is given."


def _needed(ctx: Any, first: Applied, second: Applied) -> tuple[Tensor | None, ...]:
    """The derivatives in both arguments, as far as they are asked for; none in the form."""
    wanted = zip((first, second), ctx.needs_input_grad, strict=False)
    return *(function.of(a, b, ctx.form) if needed else None for (function, a, b), needed in wanted), None


class Products(TorchFunctionMode):
    """In its context, convolutions with filters of many clients are products; models and methods do not notice."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = REPLACED[function](*args, **kwargs) if function in REPLACED else None
        return function(*args, **kwargs) if result is None else result


def _mean_over_places(input: Tensor, output_size: Any) -> Tensor | None:
    """A pooling to one place, which torch would do client by client on what a product leaves in memory."""
    return input.mean(dim=(-2, -1), keepdim=True) if output_size in (1, (1, 1)) and _clients(input) else None


def _product(
    input: Tensor,  # the names of torch.conv2d
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor | None:
    """A convolution as a product; None where it has to stay as it is."""
    if groups != 1 or isinstance(padding, str) or _pair(dilation) != (1, 1) or input.dim() != 4:
        return None
    clients = _clients(weight)
    form = Form(_pair(input.shape[2:]), _pair(weight.shape[2:]), _pair(stride), _pair(padding))
    if not clients or clients * _gathered(input, form) > MOST_GATHERED:
        return None
    result = Convolved.of(input.unsqueeze(0), weight.unsqueeze(0), form).squeeze(0)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def _clients(t: Tensor) -> int:
    """How many rows torch.vmap has hidden of a tensor; 0: it is no stack."""
    clients = 0
    while is_functorch_wrapped_tensor(t):
        inner = get_unwrapped(t)
        if is_batchedtensor(t):
            clients = max(clients, 1) * (inner.numel() // t.numel())
        t = inner
    return clients


def _gathered(x: Tensor, form: Form) -> int:
    """Bytes of what the filters of one client see."""
    h, w = form.filters
    down, right = form.stride
    return x.numel() * x.element_size() * h * w // (down * right)


REPLACED: dict[Any, Callable[..., Tensor | None]] = {torch.conv2d: _product, adaptive_avg_pool2d: _mean_over_places}
