"""Named trees of tensors: a parameter set is a flat dictionary, a stack of them has the client axis first."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Tree = dict[str, Tensor]
Nested = dict[str, Any]
"A tree whose entries may be trees themselves."


class AttrDict(dict[str, Any]):
    """A dictionary whose entries (tensors or trees) also read as attributes: ``s.server.theta``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no '{name}' here, only: {', '.join(self) or 'nothing'}") from None


def tree_map(function: Callable[..., Tensor], first: Any, *others: Any) -> Any:
    """`function` applied to corresponding tensors of nested dictionaries; the kind of the first is kept."""
    if isinstance(first, Mapping):
        kind: Callable[..., Any] = type(first)
        return kind((key, tree_map(function, first[key], *(o[key] for o in others))) for key in first)
    return function(first, *others)


def plain(tree: Any) -> Any:
    """Nested dictionaries of the built-in kind, which torch maps over and loads again without running code."""
    return {key: plain(part) for key, part in tree.items()} if isinstance(tree, Mapping) else tree


def row(stack: Any, index: int) -> Any:
    """Client `index`'s part of everything in a stack."""
    return tree_map(lambda t: t[index], stack)


def leaves(tree: Any) -> list[Tensor]:
    """All tensors of nested dictionaries, in order."""
    return [t for value in tree.values() for t in leaves(value)] if isinstance(tree, Mapping) else [tree]


def rebuilt(tree: Any, tensors: Sequence[Tensor]) -> Any:
    """The inverse of `leaves`: nested dictionaries as in `tree`, with other tensors."""
    remaining = iter(tensors)
    return tree_map(lambda _: next(remaining), tree)


def weighted_sum(stack: Any, weights: Tensor) -> Any:
    """Σ_i weights[i]·stack[i] over the client axis of every tensor.

    Added one client after the other from zero, so that the sum depends on nothing but its terms and their order; one
    client with weight 1 comes back bit for bit.
    """

    def add_up(values: Tensor) -> Tensor:
        if not values.is_floating_point():
            raise TypeError(f"only floats can be weighted, not {values.dtype}")
        total = torch.zeros_like(values[0])
        for value, weight in zip(values, weights.to(values.dtype), strict=True):
            total += weight * value
        return total

    return tree_map(add_up, stack)


def combine(stack: Any, weights: Tensor) -> Any:
    """A stack of weighted sums: row i is Σ_j weights[i, j]·stack[j], for weights [n, m] and a stack of m rows."""
    return tree_map(lambda t: (weights.to(t.dtype) @ t.flatten(1)).unflatten(1, t.shape[1:]), stack)


def blend(first: Tree, second: Tree, share: Tensor) -> Tree:
    """share·first + (1 − share)·second for two stacks; `share` [n] holds one number per client."""

    def mix(a: Tensor, b: Tensor) -> Tensor:
        s = share.to(a.dtype).reshape(-1, *[1] * (a.dim() - 1))
        return s * a + (1 - s) * b

    return tree_map(mix, first, second)


def squared_distance(first: Tree, second: Tree) -> Tensor:
    """‖first − second‖² over all parameters that `second` holds (scalar)."""
    return torch.stack([(first[key] - second[key]).square().sum() for key in second]).sum()
