"""Arrays out of a pickle that is read as data: nothing in it is imported, called or built.

A pickle is a program; loading one runs what it says. This module takes the program's instructions one by one and
accepts only those by which numpy writes arrays and Python writes plain values. What a global or a call *means* is never
looked up: `_array` recognises the one pattern of a numpy array and reads its bytes itself.
"""

import io
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

VALUES = {
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
"Instructions whose argument is a value."
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
SIZES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
NUMBERS = "biuf"
"Kinds of numpy's types that hold plain numbers."
MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
"Where numpy has kept the function that a pickled array names, before version 2 and since."
MARK = object()


class Unsafe(ValueError):
    """The pickle holds something else than plain values and arrays of numbers."""


@dataclass(frozen=True)
class _Global:
    """A name that the pickle would import."""

    module: str
    name: str


@dataclass(eq=False)
class _Call:
    """What the pickle would call and with what, and the state that it would give to the outcome."""

    function: Any
    arguments: Any
    state: Any = None


def arrays_of(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of numbers in a dictionary that is the one entry of a pickled array of objects.

    That is what ``numpy.savez(file, data={"x": x, "y": y})`` writes. Raises Unsafe for any other content.
    """
    try:
        (entry,) = _state_of(_parsed(content), "O")[4]
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, Unsafe) else Unsafe("it is not a dictionary of arrays") from error
    if not isinstance(entry, dict) or not all(isinstance(name, str) for name in entry):
        raise Unsafe("it is not a dictionary of arrays")
    return {name: _array(value, name) for name, value in entry.items()}


def _array(value: Any, name: str) -> np.ndarray:
    """The array of numbers that a call of numpy's would build."""
    _, shape, kind, fortran, content = _state_of(value, name)
    dtype = _dtype(kind)
    if not isinstance(content, bytes) or not isinstance(shape, tuple) or not all(type(n) is int for n in shape):
        raise Unsafe(f"'{name}' is not an array of numbers")
    if any(n < 0 for n in shape) or len(content) != dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise Unsafe(f"'{name}' holds other bytes than its shape needs")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


def _state_of(value: Any, name: str) -> tuple[Any, ...]:
    """Version, shape, type, order and content of an array as numpy pickles it."""
    function = value.function if isinstance(value, _Call) else None
    if not isinstance(function, _Global) or function.module not in MULTIARRAY or function.name != "_reconstruct":
        raise Unsafe(
            f"it would call {function.module}.{function.name}"
            if isinstance(function, _Global)
            else f"'{name}' is not an array of numbers"
        )
    if not isinstance(value.state, tuple) or len(value.state) != 5:
        raise Unsafe(f"'{name}' is an array without content")
    return value.state


def _dtype(value: Any) -> np.dtype[Any]:
    """A type of plain numbers, in the byte order that its state names."""
    if (
        not isinstance(value, _Call)
        or value.function != _Global("numpy", "dtype")
        or not isinstance(value.state, tuple)
    ):
        raise Unsafe("an array is of a type that is not numpy's")
    text, order = value.arguments[:1], value.state[1:2]
    if (
        len(text) != 1
        or not isinstance(text[0], str)
        or len(text[0]) > 3
        or order not in (("<",), (">",), ("|",), ("=",))
    ):
        raise Unsafe("an array is of an unknown type")
    try:
        dtype = np.dtype(text[0]).newbyteorder(order[0])
    except TypeError as error:
        raise Unsafe("an array is of an unknown type") from error
    if dtype.kind not in NUMBERS:
        raise Unsafe(f"an array is of the type {dtype}, not of numbers")
    return dtype


def _parsed(content: bytes) -> Any:
    """What the instructions leave on the stack: plain values, `_Global` and `_Call`. Raises Unsafe for others."""
    stack: list[Any] = []
    memory: dict[int, Any] = {}
    try:
        for instruction, argument, _ in pickletools.genops(io.BytesIO(content)):
            if instruction.name == "STOP":
                (value,) = stack
                return value
            _follow(instruction.name, argument, stack, memory)
    except Unsafe:
        raise
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, UnicodeError) as error:
        raise Unsafe("its pickle is damaged") from error
    raise Unsafe("its pickle ends early")


def _follow(name: str, argument: Any, stack: list[Any], memory: dict[int, Any]) -> None:
    """Moves inert values as one instruction says; Unsafe for one that plain values and arrays do not need."""
    match name:
        case "PROTO" | "FRAME":
            pass
        case _ if name in VALUES:
            stack.append(argument)
        case _ if name in CONSTANTS:
            stack.append(CONSTANTS[name]())
        case _ if name in SIZES:
            stack[-SIZES[name] :] = [tuple(stack[-SIZES[name] :])]
        case "MARK":
            stack.append(MARK)
        case "TUPLE":
            stack.append(tuple(_since_mark(stack)))
        case "MEMOIZE":
            memory[len(memory)] = stack[-1]
        case "BINPUT" | "LONG_BINPUT":
            memory[argument] = stack[-1]
        case "BINGET" | "LONG_BINGET":
            stack.append(memory[argument])
        case "GLOBAL":
            stack.append(_Global(*argument.split(" ")))
        case "STACK_GLOBAL":
            stack[-2:] = [_Global(*map(str, stack[-2:]))]
        case "REDUCE":
            stack[-2:] = [_Call(*stack[-2:])]
        case "BUILD":
            state = stack.pop()
            if not isinstance(stack[-1], _Call):
                raise Unsafe("its pickle would change a value")
            stack[-1].state = state
        case "APPEND" | "APPENDS":
            values = _since_mark(stack) if name == "APPENDS" else [stack.pop()]
            if type(stack[-1]) is not list:
                raise Unsafe("its pickle would append to something that is not a list")
            stack[-1].extend(values)
        case "SETITEM" | "SETITEMS":
            values = _since_mark(stack) if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            if type(stack[-1]) is not dict:
                raise Unsafe("its pickle would set entries of something that is not a dictionary")
            stack[-1].update(zip(values[::2], values[1::2], strict=True))
        case _:
            raise Unsafe(f"its pickle has the instruction {name}")


def _since_mark(stack: list[Any]) -> list[Any]:
    """What lies on the stack above the last mark; both are removed."""
    place = len(stack) - 1 - stack[::-1].index(MARK)
    values = stack[place + 1 :]
    del stack[place:]
    return values
