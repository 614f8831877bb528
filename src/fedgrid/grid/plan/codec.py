"""Dataclasses as plain JSON values and back, by their type hints.

A hint may be a dataclass, list, tuple, dict with texts as keys, Path, Literal, a union, str, int, float, bool, None or
Any, nested at will. What does not fit raises a ValueError that begins with the path of the value, such as
``cells[3].seed``. An absent key takes the default of its field, so what an earlier version wrote can still be read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Value = TypeVar("Value")
SCALARS: dict[Any, tuple[str, tuple[type, ...]]] = {
    str: ("a text", (str,)),
    int: ("a whole number", (int,)),
    float: ("a number", (float, int)),
    bool: ("true or false", (bool,)),
    NoneType: ("null", (NoneType,)),
    Path: ("a path", (str,)),
}
"""Hint → its words in errors, and the types of JSON values that fit."""


def encode(value: Any, path: str = "") -> Any:
    """The JSON value of a dataclass or of what one may hold; ValueError for anything else."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: encode(getattr(value, field.name), _inside(path, field.name)) for field in _fields(type(value))
        }
    if isinstance(value, Mapping):
        return {_text(key, path): encode(part, _inside(path, key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [encode(part, f"{path}[{i}]") for i, part in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise _error(path, f"JSON has no {type(value).__name__}")


def decode(kind: type[Value], value: Any, path: str = "") -> Value:
    """The dataclass of type `kind` that `encode` made the JSON `value` of; `path` locates it in errors.

    Raises ValueError for an unknown or missing key and for a value of another type.
    """
    decoded: Value = _decode(kind, value, path)
    return decoded


def _decode(hint: Any, value: Any, path: str) -> Any:
    origin = get_origin(hint) or hint
    if origin is Any:
        return value
    if is_dataclass(origin):
        return _decode_dataclass(origin, value, path)
    if origin in SCALARS:
        return _decode_scalar(origin, value, path)
    if origin not in STRUCTURES:
        raise TypeError(f"{path}: no JSON form of {hint}")
    return STRUCTURES[origin](get_args(hint), value, path)


def _decode_dataclass(kind: Any, value: Any, path: str) -> Any:
    _check(isinstance(value, Mapping), "a mapping", value, path)
    known, hints = {field.name: field for field in _fields(kind)}, _hints(kind)
    for name in value:
        if name not in known:
            raise _error(_inside(path, name), "unknown key")
    for name, field in known.items():
        if name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise _error(_inside(path, name), "missing")
    return kind(**{name: _decode(hints[name], part, _inside(path, name)) for name, part in value.items()})


def _decode_scalar(kind: Any, value: Any, path: str) -> Any:
    expected, types = SCALARS[kind]
    _check(isinstance(value, types) and (kind is bool or not isinstance(value, bool)), expected, value, path)
    return value if value is None else kind(value)


def _decode_literal(choices: tuple[Any, ...], value: Any, path: str) -> Any:
    fits = any(value == choice and type(value) is type(choice) for choice in choices)
    _check(fits, f"one of {', '.join(map(repr, choices))}", value, path)
    return value


def _decode_union(hints: tuple[Any, ...], value: Any, path: str) -> Any:
    """The value by the first hint that it fits; where only None is beside one hint, errors are those of that hint."""
    if value is None and NoneType in hints:
        return None
    others = [hint for hint in hints if hint is not NoneType]
    errors = []
    for hint in others:
        try:
            return _decode(hint, value, path)
        except ValueError as error:
            errors.append(str(error))
    raise ValueError(" or ".join(errors))


def _decode_sequence(hints: tuple[Any, ...], value: Any, path: str) -> list[Any]:
    _check(isinstance(value, list | tuple), "a list", value, path)
    (hint,) = hints or (Any,)
    return [_decode(hint, part, f"{path}[{i}]") for i, part in enumerate(value)]


def _decode_tuple(hints: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    if len(hints) == 2 and hints[1] is ...:
        return tuple(_decode_sequence(hints[:1], value, path))
    fits = isinstance(value, list | tuple) and len(value) == len(hints)
    _check(fits, f"a list of {len(hints)}", value, path)
    return tuple(_decode(hint, part, f"{path}[{i}]") for i, (hint, part) in enumerate(zip(hints, value, strict=True)))


def _decode_mapping(hints: tuple[Any, ...], value: Any, path: str) -> dict[str, Any]:
    _check(isinstance(value, Mapping), "a mapping", value, path)
    _, hint = hints or (str, Any)
    return {_text(key, path): _decode(hint, part, _inside(path, key)) for key, part in value.items()}


STRUCTURES: dict[Any, Callable[[tuple[Any, ...], Any, str], Any]] = {
    Literal: _decode_literal,
    **dict.fromkeys((Union, UnionType), _decode_union),
    **dict.fromkeys((list, Sequence), _decode_sequence),
    tuple: _decode_tuple,
    **dict.fromkeys((dict, Mapping), _decode_mapping),
}
"""Type of a hint with arguments → what decodes a value of it."""


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _fields(kind: Any) -> tuple[Field[Any], ...]:
    """The fields that a dataclass is made from."""
    return tuple(field for field in fields(kind) if field.init)


def _text(key: Any, path: str) -> str:
    _check(isinstance(key, str), "a text as key", key, path)
    return str(key)


def _inside(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _check(fits: bool, expected: str, value: Any, path: str) -> None:
    if not fits:
        raise _error(path, f"{value!r} is not {expected}")


def _error(path: str, problem: str) -> ValueError:
    return ValueError(f"{path or 'value'}: {problem}")
