"""Named trees of tensors: a parameter set is a flat tree, a stack of them has the client axis first."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

import torch
from torch import Tensor
from torch.utils import _pytree

TensorOrTree = TypeVar("TensorOrTree", Tensor, "Tree", dict[str, Any])
"What comes back is of the kind that was given; a dictionary counts as a tree, and comes back as one."


class Tree(dict[str, Any]):
    """Tensors, or trees of them, by name: parameters, a stack of them, a state. Entries also read as attributes.

    Arithmetic is entry by entry, with a tree of the same names, with a number, or with weights [n], one for each row of
    a stack: ``w - theta``, ``tau * own + (1 - tau) * received``. ``graph @ theta`` mixes the rows of a stack: row i of
    the result is Σ_j graph[i, j]·theta[j]. Trees of different names raise ValueError.
    """

    theta: "Tree"
    "The name of a model's parameters in every state; an entry of any other name may be a tensor or a tree."

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no '{name}' here, only: {', '.join(self) or 'nothing'}") from None

    def __or__(self, other: Mapping[str, Any]) -> "Tree":  # type: ignore[override]  # takes any mapping, unlike dict's
        return Tree({**self, **other})

    def __add__(self, other: Any) -> "Tree":
        return _each(operator.add, self, other)

    def __sub__(self, other: Any) -> "Tree":
        return _each(operator.sub, self, other)

    def __mul__(self, other: Any) -> "Tree":
        return _each(operator.mul, self, other)

    def __truediv__(self, other: Any) -> "Tree":
        return _each(operator.truediv, self, other)

    __rmul__ = __mul__

    def __rmatmul__(self, weights: Tensor) -> "Tree":
        return self.map(lambda t: (weights.to(t.dtype) @ t.flatten(1)).unflatten(1, t.shape[1:]))

    def map(self, function: Callable[[Tensor], Tensor]) -> "Tree":
        """`function` applied to every tensor."""
        return tree_map(function, self)

    def part(self, name: str) -> "Tree":
        """The entries of one part of θ, ``extractor`` or ``head``, under their full names."""
        return Tree((key, value) for key, value in self.items() if key.startswith(name + "."))

    def rows(self, chosen: Tensor) -> "Tree":
        """Some clients' rows of a stack: positions [m] or truth values [n]."""
        return rows(self, chosen)

    def placed(self, chosen: Tensor, new: Mapping[str, Any]) -> "Tree":
        """The stack with other rows in the chosen places."""
        return placed(self, chosen, new)


def _each(function: Callable[[Any, Any], Tensor], first: Tree, second: Any) -> Tree:
    if not isinstance(second, Mapping):
        return tree_map(lambda t: function(t, _by_row(second, t)), first)
    if first.keys() != second.keys():
        raise ValueError(f"trees of different names: {', '.join(first.keys() ^ second.keys())} in one of them")
    return tree_map(function, first, second)


def _by_row(value: Any, like: Tensor) -> Any:
    """Numbers [n] in the shape and type in which they multiply the rows of a stack; one number as it is."""
    per_row = isinstance(value, Tensor) and value.dim() == 1
    return value.to(like.dtype).reshape(-1, *[1] * (like.dim() - 1)) if per_row else value


# torch's function transforms look through it
_pytree.register_pytree_node(
    Tree, lambda tree: (list(tree.values()), list(tree)), lambda parts, names: Tree(zip(names, parts, strict=True))
)


def as_tree(tree: Any) -> Any:
    """Nested mappings as trees."""
    return Tree((key, as_tree(part)) for key, part in tree.items()) if isinstance(tree, Mapping) else tree


def plain(tree: Any) -> Any:
    """Nested mappings as dictionaries of the built-in kind, which torch loads again without running code."""
    return {key: plain(part) for key, part in tree.items()} if isinstance(tree, Mapping) else tree


@overload
def tree_map(function: Callable[..., Tensor], first: Tensor, *others: Any) -> Tensor: ...
@overload
def tree_map(function: Callable[..., Tensor], first: Mapping[str, Any], *others: Any) -> Tree: ...
def tree_map(function: Callable[..., Tensor], first: Any, *others: Any) -> Any:
    """`function` applied to corresponding tensors of nested mappings."""
    if isinstance(first, Mapping):
        return Tree((key, tree_map(function, first[key], *(o[key] for o in others))) for key in first)
    return function(first, *others)


def row(stack: TensorOrTree, index: int) -> TensorOrTree:
    """Client `index`'s part of everything in a stack."""
    return tree_map(lambda t: t[index], stack)


def rows(stack: TensorOrTree, chosen: Tensor | slice) -> TensorOrTree:
    """Some clients' parts: a copy for positions or truth values, a view for a slice."""
    at = chosen if isinstance(chosen, slice) else positions(chosen)
    return tree_map(lambda t: t[at], stack)


def placed(stack: TensorOrTree, chosen: Tensor, new: Any) -> TensorOrTree:
    """A stack whose chosen rows, positions or truth values, are those of `new`."""
    at = positions(chosen)
    return tree_map(lambda t, value: t.index_put((at,), value), stack, new)


def positions(chosen: Tensor) -> Tensor:
    """Positions [m] as they are, or those of the truth values [n] that hold; counting them synchronises a GPU."""
    return chosen.nonzero().flatten() if chosen.dtype == torch.bool else chosen


def leaves(tree: Any) -> list[Tensor]:
    """All tensors of nested mappings, in order."""
    return [t for value in tree.values() for t in leaves(value)] if isinstance(tree, Mapping) else [tree]


def rebuilt(tree: TensorOrTree, tensors: Sequence[Tensor]) -> TensorOrTree:
    """The inverse of `leaves`: nested mappings as in `tree`, with other tensors."""
    remaining = iter(tensors)
    return tree_map(lambda _: next(remaining), tree)


def all_finite(tree: Any) -> bool:
    """Whether every float is a finite number; a GPU is waited for once."""
    by_type: dict[torch.dtype, list[Tensor]] = {}
    for t in leaves(tree):
        if t.is_floating_point():
            by_type.setdefault(t.dtype, []).append(t.flatten())
    flags = [torch.cat(tensors).isfinite().all() for tensors in by_type.values()]  # one check, not one for each tensor
    return not flags or bool(torch.stack(flags).all())


def adding_up(weights: Tensor) -> Tensor:
    """The weights of an average [n]; ValueError where they do not add up to 1, but for rounding in float32."""
    if not math.isclose(total := float(weights.sum()), 1, abs_tol=1e-4):
        raise ValueError(
            f"fed.average: the weights sum to {total:.4g}, so that this is no average; "
            "divide them by their sum, or add up by fedgrid.tree.weighted_sum"
        )
    return weights


def weighted_sum(stack: TensorOrTree, weights: Tensor) -> TensorOrTree:
    """Σ_i weights[i]·stack[i] over the client axis of every tensor.

    On a processor, added one client after the other from zero, so that the sum depends on nothing but its terms and
    their order. On a GPU a product of vector and matrix, which is one launch and never rounds to TF32. One client with
    weight 1 comes back bit for bit.
    """

    def add_up(values: Tensor) -> Tensor:
        if not values.is_floating_point():
            raise TypeError(f"only floats can be weighted, not {values.dtype}")
        if values.device.type != "cpu":
            return (weights.to(values.dtype) @ values.reshape(len(values), -1)).reshape(values.shape[1:])
        total = torch.zeros_like(values[0])
        for value, weight in zip(values, weights.to(values.dtype), strict=True):
            total += weight * value
        return total

    return tree_map(add_up, stack)


def inner(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Tensor:
    """⟨first, second⟩ over all parameters that `second` holds (scalar)."""
    return torch.stack([(first[name] * t).sum() for name, t in second.items()]).sum()


def squared_distance(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Tensor:
    """‖first − second‖² over all parameters that `second` holds (scalar)."""
    return torch.stack([(first[name] - t).square().sum() for name, t in second.items()]).sum()
