"""How columns of a table become samples: pictures, texts, signals, rows of numbers.

A reader looks at all rows once (`look`), which checks them and finds what the samples of the whole have in common
(`found`), and then turns rows into arrays (`arrays`). Sentences about a row name it by its number, from 0.
"""

import abc
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.data.common.captions import FILLED, FIRST, MOST, UNKNOWN, frequent, words
from fedgrid.data.sources import pictures
from fedgrid.errors import UserError


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
        encoded = self._encoded(table, first)
        for number, picture in enumerate([] if self.side else encoded, first):
            size = _size(picture, self._named(number))
            self.size = self.size or size
            if size != self.size:
                problem = f"{self._named(number)} has {size[0]}×{size[1]} pixels, those before it {self.size[0]}×"
                raise UserError(f"{problem}{self.size[1]}; set `side` to resize all of them")

    def found(self) -> Found:
        return Found((*(self.size or (1, 1)), self.channels))

    def arrays(self, table: pa.Table, found: Found, first: int) -> np.ndarray:
        encoded = self._encoded(table, first)
        where = f"image: column '{self.columns[0]}'"
        return pictures.decoded(encoded, self.side, self.channels, where, self.lost, first)

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

    def __init__(self, column: str, unit: str, length: int, most: int | None, padding: int | None = None):
        super().__init__((column,))
        self.unit, self.length, self.most, self.padding = unit, length, most, padding
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
            row[0, : min(len(tokens), self.length), 0] = [self._number(t, number) for t in tokens[: self.length]]
        return rows

    def _number(self, token: Any, number: Mapping[str, int]) -> int:
        """The token as the store has it: words and token numbers come after those that fill up or are unknown."""
        if self.unit != "tokens":
            return number.get(token, UNKNOWN)
        return FILLED if token == self.padding else FIRST + int(token)

    def _split(self, table: pa.Table, first: int) -> list[list[Any]]:
        column = table[self.columns[0]]
        of_numbers = is_list(column.type) and pa.types.is_integer(column.type.value_type)
        if self.unit == "tokens" and not of_numbers:
            raise UserError(f"text: column '{self.columns[0]}' holds {column.type}, not lists of token numbers")
        if self.unit != "tokens" and not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            mend = "; set unit: tokens" if of_numbers else ""
            raise UserError(f"text: column '{self.columns[0]}' holds {column.type}, not texts{mend}")
        rows = column.to_pylist()
        check_present(rows, first, f"text: column '{self.columns[0]}'")
        return rows if self.unit == "tokens" else [words(t) if self.unit == "words" else [*t] for t in rows]

    def _check(self, tokens: list[int], number: int) -> None:
        most = MOST if self.most is None else self.most
        if None in tokens:
            raise UserError(f"text: row {number} of column '{self.columns[0]}' has a token that is no number")
        beyond = [t for t in tokens if not 0 <= t < most]
        if beyond:
            limit = f"the vocabulary has {most} (0 to {most - 1})" if self.most else f"there can be 0 to {most - 1}"
            raise UserError(f"text: row {number} of column '{self.columns[0]}' has the token {beyond[0]}, {limit}")


def _size(picture: bytes | Path, where: str) -> tuple[int, int]:
    """Height and width of a picture, by its header."""
    from PIL import Image

    try:
        with Image.open(BytesIO(picture) if isinstance(picture, bytes) else picture) as opened:
            return opened.height, opened.width
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # as where pictures are decoded
        raise UserError(f"{where} is incomplete or damaged ({error})") from error


def check_present(rows: list[Any], first: int, where: str) -> None:
    """Raises UserError for a row that holds nothing."""
    if None in rows:
        raise UserError(f"{where} is empty in row {first + rows.index(None)}")


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
