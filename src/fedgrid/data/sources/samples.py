"""How columns of a table become samples: pictures, texts, signals, rows of numbers.

A reader looks at all rows once (`look`), which checks them and finds what the samples of the whole have in common
(`found`), and then turns rows into arrays (`arrays`). Sentences about a row name it by its number, from 0.
"""

import abc
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.data.common.captions import FILLED, FIRST, MOST, UNKNOWN, frequent, words
from fedgrid.data.sources import pictures
from fedgrid.errors import UserError

DIGITS = 6
"Of means and standard deviations, so that no processor's way of adding shows in them."


@dataclass(frozen=True)
class Found:
    """What samples have in common, as plain values."""

    shape: tuple[int, int, int]
    vocabulary: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    values: Mapping[str, list[str]] = field(default_factory=dict)
    "Of a table's columns of names: the different names of the training part, each of which becomes a number."


class Reader(abc.ABC):
    """Reads the samples that some `columns` hold."""

    dtype: type[np.generic] = np.float32

    def __init__(self, columns: Iterable[str]):
        self.columns = tuple(columns)
        self.lost: Counter[str] = Counter()
        "What samples lose as arrays, and how many."

    @abc.abstractmethod
    def look(self, table: pa.Table, first: int, training: bool) -> None:
        """Looks at rows, the first of which has this number; UserError for one that is no such sample."""

    @abc.abstractmethod
    def found(self) -> Found:
        """What all rows that were looked at have in common."""

    @abc.abstractmethod
    def arrays(self, table: pa.Table, found: Found, first: int) -> np.ndarray:
        """The samples [n, height, width, channels] of rows."""


class Pictures(Reader):
    """Pictures, grey or of three colours, at `side`×`side` where it is given; else all have to be of one size."""

    dtype = np.uint8

    def __init__(self, column: str, side: int | None, channels: int):
        super().__init__((column,))
        self.side, self.channels = side, channels
        self.size: tuple[int, int] | None = (side, side) if side else None

    def look(self, table: pa.Table, first: int, training: bool) -> None:
        if self.side and self.size:
            return
        for number, picture in enumerate(self._encoded(table, first), first):
            size = _size(picture, self._named(number))
            self.size = self.size or size
            if size != self.size:
                problem = f"{self._named(number)} has {size[0]}×{size[1]} pixels, those before it {self.size[0]}×"
                raise UserError(f"{problem}{self.size[1]}; set `side` to resize all of them")

    def found(self) -> Found:
        return Found((*(self.size or (1, 1)), self.channels))

    def arrays(self, table: pa.Table, found: Found, first: int) -> np.ndarray:
        encoded = self._encoded(table, first)
        return pictures.decoded(encoded, self.side, self.channels, self._named(first), self.lost)

    def _encoded(self, table: pa.Table, first: int) -> list[bytes | Path]:
        encoded = []
        for number, row in enumerate(table[self.columns[0]].to_pylist(), first):
            if not row or not (row["bytes"] or row["path"]):
                raise UserError(f"{self._named(number)} is missing")
            encoded.append(row["bytes"] or Path(row["path"]))
        return encoded

    def _named(self, number: int) -> str:
        return f"image: the picture of row {number} in column '{self.columns[0]}'"


class Texts(Reader):
    """Texts of words or of characters, or lists of token numbers, the first `length` of each."""

    dtype = np.uint16

    def __init__(self, column: str, unit: str, length: int, most: int | None):
        super().__init__((column,))
        self.unit, self.length, self.most = unit, length, most
        self.counts: Counter[str] = Counter()
        self.largest = -1

    def look(self, table: pa.Table, first: int, training: bool) -> None:
        for number, tokens in enumerate(self._split(table, first), first):
            if self.unit == "tokens":
                self._check(tokens, number)
                self.largest = max(self.largest, *tokens, -1)
            elif training:
                self.counts.update(tokens)

    def found(self) -> Found:
        most = MOST if self.most is None else self.most
        if self.unit == "tokens":
            known = tuple(map(str, range(self.largest + 1 if self.most is None else self.most)))
        else:
            known = frequent(self.counts, most)
        return Found((1, self.length, 1), known)

    def arrays(self, table: pa.Table, found: Found, first: int) -> np.ndarray:
        number = {word: FIRST + place for place, word in enumerate(found.vocabulary)}
        rows = np.full((len(table), 1, self.length, 1), FILLED, np.uint16)
        for row, tokens in zip(rows, self._split(table, first), strict=True):
            self.lost[f"cut to {self.length} {self.unit}"] += len(tokens) > self.length
            known = [FIRST + t if isinstance(t, int) else number.get(t, UNKNOWN) for t in tokens[: self.length]]
            row[0, : len(known), 0] = known
        return rows

    def _split(self, table: pa.Table, first: int) -> list[list[Any]]:
        column = table[self.columns[0]]
        of_numbers = _is_list(column.type) and pa.types.is_integer(column.type.value_type)
        if self.unit == "tokens" and not of_numbers:
            raise UserError(f"text: column '{self.columns[0]}' holds {column.type}, not lists of token numbers")
        if self.unit != "tokens" and not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            mend = "; set unit: tokens" if of_numbers else ""
            raise UserError(f"text: column '{self.columns[0]}' holds {column.type}, not texts{mend}")
        rows = column.to_pylist()
        _check_present(rows, first, f"text: column '{self.columns[0]}'")
        return rows if self.unit == "tokens" else [words(t) if self.unit == "words" else [*t] for t in rows]

    def _check(self, tokens: list[int], number: int) -> None:
        most = MOST if self.most is None else self.most
        beyond = [t for t in tokens if not 0 <= t < most]
        if beyond:
            limit = f"the vocabulary has {most} (0 to {most - 1})" if self.most else f"there can be 0 to {most - 1}"
            raise UserError(f"text: row {number} of column '{self.columns[0]}' has the token {beyond[0]}, {limit}")


class Signals(Reader):
    """Signals: a column for each channel, with a list of readings in each row, or one column of lists of channels."""

    def __init__(self, columns: Iterable[str]):
        super().__init__(columns)
        self.moments = Moments()
        self.lengths: dict[tuple[str, int], int] = {}
        "Of the lists of a column, by their depth; those of the first row."

    def look(self, table: pa.Table, first: int, training: bool) -> None:
        signals = self._read(table, first)
        if training:
            self.moments.add(signals[:, 0])

    def found(self) -> Found:
        of_columns = [[self.lengths.get((name, depth), 1) for depth in (0, 1)] for name in self.columns]
        flat = [(name, 1) not in self.lengths for name in self.columns]
        channels = sum(1 if one else sizes[0] for one, sizes in zip(flat, of_columns, strict=True))
        return Found((1, of_columns[0][0 if flat[0] else 1], channels), (), *self.moments.constants())

    def arrays(self, table: pa.Table, found: Found, first: int) -> np.ndarray:
        return self._read(table, first)

    def _read(self, table: pa.Table, first: int) -> np.ndarray:
        """Signals float32 [n, 1, length, channels]."""
        channels = [self._channels(table[name].combine_chunks(), name, first) for name in self.columns]
        lengths = [f"{part.shape[2]} in '{name}'" for name, part in zip(self.columns, channels, strict=True)]
        if len({part.shape[2] for part in channels}) > 1:
            raise UserError(f"signal: channels have different numbers of readings: {' and '.join(lengths)}")
        together: np.ndarray = np.concatenate(channels, axis=1).transpose(0, 2, 1)[:, None]
        return together

    def _channels(self, column: pa.Array, name: str, first: int) -> np.ndarray:
        """The channels float32 [n, channels, length] of a column."""
        values, sizes = column.storage if isinstance(column, pa.ExtensionArray) else column, list[int]()
        while _is_list(values.type) and len(sizes) < 2:
            sizes.append(self._length(values, name, first, sizes))
            values = values.flatten()
        if not sizes or not _is_number(values.type):
            raise UserError(f"signal: column '{name}' holds {column.type}, not lists of readings")
        readings = values.to_numpy(zero_copy_only=False).astype(np.float32)
        wrong = np.flatnonzero(~np.isfinite(readings))
        if len(wrong):
            row = first + wrong[0] // math.prod(sizes)
            raise UserError(f"signal: row {row} of column '{name}' has a reading that is no number")
        channels: np.ndarray = readings.reshape(len(column), *([1] if len(sizes) == 1 else []), *sizes)
        return channels

    def _length(self, lists: pa.Array, name: str, first: int, outer: list[int]) -> int:
        """The length that lists, below lists of `outer` lengths, all have; UserError for one that differs."""
        lengths = [length or 0 for length in pc.list_value_length(lists).to_pylist()]
        expected = self.lengths.setdefault((name, len(outer)), lengths[0] if lengths else 0)
        for place, length in enumerate(lengths):
            if length != expected or not length:
                row = f"row {first + place // math.prod(outer)} of column '{name}'"
                mend = f"expected {expected or 'some'}; cut or fill signals to one length"
                raise UserError(f"signal: {row} has {length} readings, {mend}")
        return expected


class Numbers(Reader):
    """Rows of a table: columns of numbers, and columns of names, each of whose values becomes a column of 0 and 1."""

    def __init__(self, columns: Iterable[str]):
        super().__init__(columns)
        self.moments = Moments()
        self.values: dict[str, set[str]] = {}

    def look(self, table: pa.Table, first: int, training: bool) -> None:
        numbers = [name for name in self.columns if _is_number(table[name].type)]
        for name in self.columns:
            _check_present(table[name].to_pylist(), first, f"columns: column '{name}'")
            if name in numbers:
                continue
            if not _is_name(table[name].type):
                raise UserError(f"columns: column '{name}' holds {table[name].type}, neither numbers nor names")
            if training:
                self.values.setdefault(name, set()).update(map(str, table[name].to_pylist()))
        if training and numbers:
            self.moments.add(np.stack([self._numbers(table, name, first) for name in numbers], axis=1)[:, None])

    def found(self) -> Found:
        values = {name: sorted(self.values[name]) for name in self.columns if name in self.values}
        constants, mean, std = zip(*self.moments.constants(), strict=True), list[float](), list[float]()
        for name in self.columns:
            of_column = [(0.0, 1.0)] * len(values[name]) if name in values else [next(constants)]
            mean += [centre for centre, _ in of_column]
            std += [spread for _, spread in of_column]
        return Found((1, 1, len(mean)), (), tuple(mean), tuple(std), values)

    def arrays(self, table: pa.Table, found: Found, first: int) -> np.ndarray:
        parts = []
        for name in self.columns:
            if name in found.values:
                rows = np.array(list(map(str, table[name].to_pylist())))
                parts.append(rows[:, None] == np.array(found.values[name])[None])
            else:
                parts.append(self._numbers(table, name, first)[:, None])
        return np.concatenate([part.astype(np.float32) for part in parts], axis=1)[:, None, None]

    def _numbers(self, table: pa.Table, name: str, first: int) -> np.ndarray:
        numbers: np.ndarray = table[name].to_numpy().astype(np.float32)
        wrong = np.flatnonzero(~np.isfinite(numbers))
        if len(wrong):
            raise UserError(f"columns: row {first + wrong[0]} of column '{name}' is no number")
        return numbers


class Moments:
    """Mean and standard deviation of channels, of batch after batch (Chan, Golub & LeVeque 1979, Eq. 2.1)."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, np.zeros(1), np.zeros(1)

    def add(self, values: np.ndarray) -> None:
        """Values [n, length, channels] more."""
        flat = values.reshape(-1, values.shape[-1]).astype(np.float64)
        if not len(flat):
            return
        mean, count = flat.mean(axis=0), self.count + len(flat)
        apart = mean - self.mean
        between = apart**2 * self.count * len(flat) / count
        self.squares = self.squares + ((flat - mean) ** 2).sum(axis=0) + between
        self.mean, self.count = self.mean + apart * len(flat) / count, count

    def constants(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Means and standard deviations, 1 for a channel that does not vary."""
        deviation = np.sqrt(self.squares / max(1, self.count))
        return _rounded(self.mean), _rounded(np.where(deviation > 0, deviation, 1.0))


def _rounded(numbers: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{number:.{DIGITS}g}") for number in numbers)


def _size(picture: bytes | Path, where: str) -> tuple[int, int]:
    """Height and width of a picture, by its header."""
    from PIL import Image

    try:
        with Image.open(BytesIO(picture) if isinstance(picture, bytes) else picture) as opened:
            return opened.height, opened.width
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # as where pictures are decoded
        raise UserError(f"{where} is incomplete or damaged ({error})") from error


def _check_present(rows: list[Any], first: int, where: str) -> None:
    """Raises UserError for a row that holds nothing."""
    if None in rows:
        raise UserError(f"{where} is empty in row {first + rows.index(None)}")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_name(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind))
