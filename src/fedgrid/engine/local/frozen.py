"""What a captured step freezes: all that a method's function depends on beside its arguments, as a key.

A graph replays kernels. What Python decided while it was captured (numbers, branches, tensors of a closure) stays as it
was, so a function may be replayed only where all of that is the same.
"""

import functools
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from torch import Tensor

Key = tuple[Any, ...]
PLAIN = (str, int, float, complex, bool, bytes, type(None), type)
Seen = dict[int, Any]
"What was looked into, by identity; kept, or something else could get its place in memory."
OURS = "fedgrid."
TESTED = frozenset({"fedgrid", "torch"}) | sys.stdlib_module_names
"Packages whose code the tests have captured."


class NotFrozen(Exception):
    """A function depends on something that may be another one next time, such as a tensor of its closure."""


@dataclass(frozen=True, eq=False)
class Same:
    """An object that is equal to itself alone, and kept."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True)
class Code:
    """The code of a function, and where it is from."""

    module: str
    name: str
    code: types.CodeType


def key_of(function: Any, constants: Iterable[Any] = ()) -> Key:
    """What a function depends on: code, closure, defaults, fields and globals.

    Raises NotFrozen for a tensor there, unless it is one of the `constants`, or in one, which stay as they are.
    """
    return tuple(_held(function, {}, {id(value) for value in constants}))


def form_of(tree: Any) -> Key:
    """Names, shapes and types of a tree; of what is no tensor, the value, unless it is one of its `numbers`."""
    if isinstance(tree, Mapping):
        return tuple((name, form_of(part)) for name, part in tree.items())
    if isinstance(tree, Tensor):
        return tuple(tree.shape), tree.dtype
    return ("number",) if isinstance(tree, float) else ("value", repr(tree))


def is_tested(key: Key) -> bool:
    """Whether all code in a key is fedgrid's, or what it calls, whose tests have captured it."""
    return all(part.module.partition(".")[0] in TESTED for part in key if isinstance(part, Code))


def _held(value: Any, seen: Seen, constants: Set[int]) -> Iterator[Any]:
    if isinstance(value, PLAIN):
        yield value if isinstance(value, type) else repr(value)
        return
    if id(value) in seen:
        return
    seen[id(value)] = value
    if id(value) in constants:
        yield Same(value)
    elif isinstance(value, Tensor):
        raise NotFrozen(f"a tensor {tuple(value.shape)}")
    elif isinstance(value, functools.partial):
        yield from _held((value.func, value.args, value.keywords), seen, constants)
    elif isinstance(value, types.MethodType):
        yield from _held((value.__func__, value.__self__), seen, constants)
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value, seen, constants)
    elif isinstance(value, Mapping):
        yield from _held(tuple(value.items()), seen, constants)
    elif isinstance(value, tuple | list | set | frozenset):
        for part in value:
            yield from _held(part, seen, constants)
    elif is_dataclass(value):
        yield type(value)
        yield from _held(tuple((field.name, getattr(value, field.name)) for field in fields(value)), seen, constants)
        yield from _held(tuple(_methods(type(value))), seen, constants)
    else:
        yield Same(value)


def _of_function(function: types.FunctionType, seen: Seen, constants: Set[int]) -> Iterator[Any]:
    yield Code(function.__module__, function.__qualname__, function.__code__)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    yield from _held((*cells, function.__defaults__, function.__kwdefaults__), seen, constants)
    for name in sorted(_names(function.__code__) & {*function.__globals__}):
        value = function.__globals__[name]
        if not isinstance(value, types.ModuleType | types.BuiltinFunctionType | type) and not _is_torch(value):
            yield name
            yield from _held(value, seen, constants)


def _names(code: types.CodeType) -> set[str]:
    """What a function, and the functions in it, may read of its module."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return {*code.co_names}.union(*inner)


def _methods(kind: type) -> Iterator[types.FunctionType]:
    """The functions of a class of the user's own, whose globals may change; fedgrid's are its code."""
    for base in kind.__mro__:
        if not base.__module__.startswith(OURS) and base is not object:
            yield from (value for value in vars(base).values() if isinstance(value, types.FunctionType))


def _is_torch(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] == "torch"
