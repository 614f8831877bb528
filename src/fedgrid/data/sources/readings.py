"""Samples of numbers: signals of sensors, and rows of a table."""

import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.data.sources.samples import Found, Reader, check_present, is_list
from fedgrid.errors import UserError

DIGITS = 6
"Of standard deviations, and so many below them of means: so no processor's way of adding shows in them."
FARTHEST = 1e4
"Standard deviations from 0 to the mean, beyond which numbers of 32 bits would not tell values apart."
MOST_NAMES = 1_000
"Different names in a column of a table, each of which becomes a column."


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
        self.moments.check("signal: a channel")
        return Found((1, of_columns[0][0 if flat[0] else 1], channels), (), *self.moments.constants())

    def arrays(self, table: pa.Table, found: Found, first: int) -> np.ndarray:
        return self._read(table, first).astype(np.float32)

    def _read(self, table: pa.Table, first: int) -> np.ndarray:
        """Signals float64 [n, 1, length, channels]."""
        channels = [self._channels(table[name].combine_chunks(), name, first) for name in self.columns]
        lengths = [f"{part.shape[2]} in '{name}'" for name, part in zip(self.columns, channels, strict=True)]
        if len({part.shape[2] for part in channels}) > 1:
            raise UserError(f"signal: channels have different numbers of readings: {' and '.join(lengths)}")
        together: np.ndarray = np.concatenate(channels, axis=1).transpose(0, 2, 1)[:, None]
        return together

    def _channels(self, column: pa.Array, name: str, first: int) -> np.ndarray:
        """The channels float64 [n, channels, length] of a column."""
        values, sizes = column.storage if isinstance(column, pa.ExtensionArray) else column, list[int]()
        while is_list(values.type) and len(sizes) < 2:
            sizes.append(self._length(values, name, first, sizes))
            values = values.flatten()
        if not sizes or not _is_number(values.type):
            raise UserError(f"signal: column '{name}' holds {column.type}, not lists of readings")
        readings = values.to_numpy(zero_copy_only=False).astype(np.float64)
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
        self.numbers: list[str] | None = None

    def look(self, table: pa.Table, first: int, training: bool) -> None:
        numbers = [name for name in self.columns if _is_number(table[name].type)]
        self.numbers = numbers if self.numbers is None else self.numbers
        for name in set(numbers) ^ set(self.numbers):
            raise UserError(f"columns: column '{name}' holds numbers in one split and names in another")
        for name in self.columns:
            check_present(table[name].to_pylist(), first, f"columns: column '{name}'")
            if name in numbers:
                continue
            if not _is_name(table[name].type):
                raise UserError(f"columns: column '{name}' holds {table[name].type}, neither numbers nor names")
            if training:
                self.values.setdefault(name, set()).update(map(str, table[name].to_pylist()))
                if len(self.values[name]) > MOST_NAMES:
                    what = f"has more than {MOST_NAMES:,} different names, each of which would become a column"
                    raise UserError(f"columns: '{name}' {what}; leave it out, with the names of the others")
        if training and numbers:
            self.moments.add(np.stack([self._numbers(table, name, first) for name in numbers], axis=1)[:, None])

    def found(self) -> Found:
        self.moments.check("columns: a column of numbers")
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
        numbers: np.ndarray = table[name].to_numpy().astype(np.float64)
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
        spread = [float(f"{number:.{DIGITS}g}") for number in self._deviation]
        places = [DIGITS - 1 - math.floor(math.log10(number)) for number in spread]
        mean = [round(float(number), place) for number, place in zip(self.mean, places, strict=True)]
        return tuple(mean), tuple(spread)

    def check(self, what: str) -> None:
        """Raises UserError where numbers of 32 bits would not tell the values of a channel apart."""
        far = np.flatnonzero(np.abs(self.mean) > FARTHEST * self._deviation)
        if len(far) and self._deviation[far[0]] != 1.0:
            about = f"varies by {self._deviation[far[0]]:.3g} about {self.mean[far[0]]:.6g}"
            raise UserError(f"{what} {about}, too little for numbers of 32 bits; subtract its smallest value first")

    @property
    def _deviation(self) -> np.ndarray:
        deviation = np.sqrt(self.squares / max(1, self.count))
        return np.where(deviation > 0, deviation, 1.0)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_name(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind))
