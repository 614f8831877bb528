"""Dataclasses from plain values, of a study's YAML or of a JSON file, and back, by their type hints.

A hint may be a dataclass, list, tuple, dict with texts as keys, Path, Literal, a union, str, int, float, bool, None or
Any, nested at will, and ``Annotated`` with `Limits`, which are those of the plain value. An absent key takes the
default of its field, so that what an earlier version wrote can still be read. What does not fit is a `Misfit`, which
knows its path.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fedgrid.components import limit_problem
from fedgrid.errors import nearest

Value = TypeVar("Value")
SCALARS: dict[Any, tuple[str, tuple[type, ...]]] = {
    str: ("a text", (str,)),
    int: ("a whole number", (int,)),
    float: ("a number", (float, int)),
    bool: ("true or false", (bool,)),
    NoneType: ("nothing", (NoneType,)),
    Path: ("a path", (str,)),
}
"Hint → its words in errors, and the types of plain values that fit."
LISTS, MAPPINGS = (list, tuple, Sequence), (dict, Mapping)
RAW, KEY = "raw", "key"
"Metadata of a field: it is the very mapping that the dataclass is made from; its key, where that is not its name."
SHARED = "shared"
"The key of the number of a `Shared` value."


class Limits(dict[str, Any]):
    """Limits of an annotated hint, as of `fedgrid.components.limit_problem`; unions take what has a hash alone.

    An `example` is what an error about a value of another type says to write.
    """

    __hash__ = object.__hash__  # type: ignore[assignment]


class Misfit(ValueError):
    """A value that does not fit: the `path` of keys and positions to it, the `problem`, and the key that this is about.

    `key` is one inside the value; None where the problem is the value's own.
    """

    def __init__(self, problem: str, path: tuple[str | int, ...] = (), key: str | None = None):
        super().__init__(problem)
        self.problem, self.path, self.key = problem, path, key

    def below(self, step: str | int) -> "Misfit":
        """The same, of a value that holds this one."""
        return Misfit(self.problem, (step, *self.path), self.key)

    def __str__(self) -> str:
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return f"{steps.removeprefix('.') or 'value'}: {self.problem}"


class Shared:
    """Dataclasses of some `kinds` that a file holds once, however many others hold them: by number, their plain values.

    What `encode` has put there, `decode` takes from there: the same value for the same number.
    """

    def __init__(self, *kinds: type, values: Iterable[Any] = ()):
        self.kinds, self.values = kinds, list(values)
        self.numbers: dict[int, tuple[int, Any]] = {}
        "By identity: number and the value itself, whose identity no other then has."
        self.decoded: dict[int, Any] = {}

    def encode(self, value: Any) -> dict[str, int]:
        """What stands for a value."""
        if id(value) not in self.numbers:
            plain = _encode_fields(value, self)
            self.numbers[id(value)] = len(self.values), value
            self.values.append(plain)
        return {SHARED: self.numbers[id(value)][0]}

    def decode(self, kind: Any, number: Any) -> Any:
        """The value of a number."""
        if number not in self.decoded:
            if not isinstance(number, int) or not 0 <= number < len(self.values):
                raise Misfit(f"no shared value has the number {number!r}")
            self.decoded[number] = _decode_dataclass(kind, self.values[number], self)
        return self.decoded[number]


def encode(value: Any, shared: Shared | None = None) -> Any:
    """The JSON value of a dataclass or of what one may hold; `Misfit` for anything else."""
    if is_dataclass(value) and not isinstance(value, type):
        if shared and isinstance(value, shared.kinds):
            return shared.encode(value)
        return _encode_fields(value, shared)
    if isinstance(value, Mapping):
        return {_text(key): _inside(encode, key, part, shared) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_inside(encode, i, part, shared) for i, part in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise Misfit(f"JSON has no {type(value).__name__}")


def _encode_fields(value: Any, shared: Shared | None) -> Any:
    kind: Any = type(value)
    if raw := _raw(kind):
        return encode(getattr(value, raw))
    known = keyed_fields(kind)
    return {key: _inside(encode, key, getattr(value, field.name), shared) for key, field in known.items()}


def decode(hint: type[Value], value: Any, path: str = "", shared: Shared | None = None) -> Value:
    """The value of a type for a plain one, such as `encode` makes; `path` is where that is, for errors.

    Raises `Misfit` for an unknown or missing key, for a value of another type, and for one outside its limits.
    """
    decoded: Value = _inside(_decode, path, hint, value, shared) if path else _decode(hint, value, shared)
    return decoded


def _inside(function: Any, step: str | int, *arguments: Any) -> Any:
    """What a function returns of a part of a value; a misfit says where the part is."""
    try:
        return function(*arguments)
    except Misfit as error:
        raise error.below(step) from None


def _decode(hint: Any, value: Any, shared: Shared | None) -> Any:
    """The value of a hint."""
    if type(value) is hint:  # most values are texts and numbers
        return value
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Any:
        return value
    if origin is Annotated:
        if not _fits(hint, value) and (example := arguments[1].get("example")):
            raise Misfit(f"{_of_another_type([hint], value).problem}; write {example}")
        decoded = _decode(arguments[0], value, shared)
        _check_limits(value, arguments[1])
        return decoded
    if origin in (Union, UnionType):
        return _decode_union(arguments, value, shared)
    if not _fits(hint, value):
        raise _of_another_type([hint], value)
    if shared and origin in shared.kinds:
        return shared.decode(origin, value.get(SHARED))
    if is_dataclass(origin):
        return _decode_dataclass(origin, value, shared)
    if origin in SCALARS:
        return value if value is None else origin(value)
    if origin is Literal:
        _check_limits(value, {"choices": arguments})
        return value
    if origin in LISTS:
        entries = _decode_entries(origin, arguments, value, shared)
        return tuple(entries) if origin is tuple else entries
    return _decode_mapping(arguments, value, shared)


def _decode_union(hints: Sequence[Any], value: Any, shared: Shared | None) -> Any:
    """The value by the first hint that it fits; errors are those of the first one of its type."""
    errors = []
    for hint in hints:
        if _fits(hint, value):
            try:
                return _decode(hint, value, shared)
            except Misfit as error:
                errors.append(error)
    raise errors[0] if errors else _of_another_type(hints, value)


def _decode_dataclass(kind: Any, value: Mapping[Any, Any], shared: Shared | None) -> Any:
    """The dataclass; one with `others`, a hint of its further keys, is open. `was` has keys of earlier versions."""
    known, hints, others = keyed_fields(kind), field_hints(kind), getattr(kind, "others", None)
    further = {key: part for key, part in value.items() if key not in known}
    if further and others is None:
        key = next(iter(further))
        raise Misfit(f"unknown key '{key}'; {nearest(key, known, getattr(kind, 'was', None))}", key=key)
    for key, field in known.items():
        if key not in value and field.default is MISSING and field.default_factory is MISSING:
            raise Misfit(f"the key '{key}' is missing")
    decoded = {
        field.name: _inside(_decode_field, key, field, hints[field.name], value[key], shared)
        for key, field in known.items()
        if key in value
    }
    _decode_mapping(get_args(others), further, shared)
    raw = {name: value} if (name := _raw(kind)) else {}
    return kind(**decoded, **raw)


def _decode_field(field: Field[Any], hint: Any, value: Any, shared: Shared | None) -> Any:
    """The value of a field; its default may be outside its limits, such as an empty text where none is written."""
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return default if type(value) is type(default) and value == default else _decode(hint, value, shared)


def _decode_entries(origin: Any, hints: tuple[Any, ...], value: Sequence[Any], shared: Shared | None) -> list[Any]:
    """The entries of a list, all of one hint, or of a tuple with a hint for each."""
    if origin is not tuple or hints[-1:] in ((), (...,)):
        hints = (hints or (Any,))[:1] * len(value)
    if len(value) != len(hints):
        raise Misfit(f"expected a list of {len(hints)}, got {list(value)!r}")
    return [_inside(_decode, i, hint, part, shared) for i, (hint, part) in enumerate(zip(hints, value, strict=True))]


def _decode_mapping(hints: Sequence[Any], value: Mapping[Any, Any], shared: Shared | None) -> Mapping[str, Any]:
    """The mapping; as it is where its values may be anything."""
    key_hint, hint = hints or (str, Any)
    for key in value:
        try:
            _decode(key_hint, _text(key), shared)
        except Misfit as error:
            raise Misfit(error.problem, key=key) from None
    return value if hint is Any else {key: _inside(_decode, key, hint, part, shared) for key, part in value.items()}


def _fits(hint: Any, value: Any) -> bool:
    """Whether a value is of the type that a hint asks for, whatever it holds."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated or origin in (Union, UnionType):
        return any(_fits(argument, value) for argument in arguments[: 1 if origin is Annotated else None])
    if origin in SCALARS:
        whole = origin is int and isinstance(value, float) and value.is_integer()  # YAML's 1.0
        return whole or (isinstance(value, SCALARS[origin][1]) and isinstance(value, bool) <= (origin is bool))
    if origin is Literal:
        return any(type(value) is type(choice) for choice in arguments)
    if origin in LISTS:
        return isinstance(value, list | tuple)
    if is_dataclass(origin) or origin in MAPPINGS or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return isinstance(value, Mapping)
    if origin is Any:
        return True
    raise TypeError(f"no plain form of {hint}")


def _of_another_type(hints: Iterable[Any], value: Any) -> Misfit:
    words = dict.fromkeys(word for hint in hints for word in _words(hint))
    quoted = "; put a text in quotes" if isinstance(value, bool | int | float) and "a text" in words else ""
    return Misfit(f"expected {' or '.join(words)}, got {value!r}{quoted}")


def _words(hint: Any) -> list[str]:
    """What a hint asks for, in words."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        return _words(arguments[0])
    if origin in (Union, UnionType):
        return [word for argument in arguments for word in _words(argument)]
    if origin is Literal:
        return list(dict.fromkeys(SCALARS[type(choice)][0] for choice in arguments))
    return [SCALARS[origin][0] if origin in SCALARS else "a list" if origin in LISTS else "a mapping"]


def _check_limits(value: Any, limits: Mapping[str, Any]) -> None:
    if problem := limit_problem(limits, value):
        raise Misfit(problem)


def _text(key: Any) -> str:
    if not isinstance(key, str):
        raise Misfit(f"{key!r} is not a text as key")
    return key


@cache
def field_hints(kind: Any) -> dict[str, Any]:
    """The hints of a dataclass, with their limits."""
    return get_type_hints(kind, include_extras=True)


@cache
def keyed_fields(kind: Any) -> dict[str, Field[Any]]:
    """By key, the fields that a dataclass is made from, but one that is the mapping itself."""
    return {f.metadata.get(KEY, f.name): f for f in fields(kind) if f.init and not f.metadata.get(RAW)}


@cache
def _raw(kind: Any) -> str:
    """The name of the field that is the mapping itself; empty where there is none."""
    return next((field.name for field in fields(kind) if field.metadata.get(RAW)), "")
