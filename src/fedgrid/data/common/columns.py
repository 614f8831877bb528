"""Columns of Parquet files from and to numpy, without pyarrow's own conversions, which import pandas: half a second."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa


def column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Numbers [n] as a column of that kind."""
    values = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def texts(values: Sequence[str]) -> pa.Array:
    """Texts [n] as a column."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def positions(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    """The position of each of the names [n] in `known`, int64 [n]; KeyError for an unknown one."""
    position = {name: number for number, name in enumerate(known)}
    return np.array([position[name] for name in names], np.int64)


def encoded(column: pa.ChunkedArray) -> tuple[np.ndarray, tuple[str, ...]]:
    """The values of a column without nulls, as texts: their positions, int64 [n], and the different ones, sorted."""
    values = pa.chunked_array([column.cast(pa.string()).combine_chunks()], pa.string()).dictionary_encode().chunk(0)
    names: list[str] = values.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return rank[numbers(values.indices)], tuple(names[number] for number in order)


def numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The numbers [n] of a column that has no nulls."""
    kind = np.dtype(column.type.to_pandas_dtype())
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [np.frombuffer(c.buffers()[1], kind)[c.offset :][: len(c)] for c in chunks if len(c)]
    return np.concatenate([np.empty(0, kind), *parts])


def fixed_column(values: np.ndarray) -> pa.Array:
    """Arrays [n, …] of numbers as a column of their bytes."""
    flat = np.ascontiguousarray(values)
    size = int(np.prod(flat.shape[1:])) * flat.itemsize
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(flat), [None, pa.py_buffer(flat)])


def fixed(column: pa.ChunkedArray, kind: str, shape: Sequence[int]) -> np.ndarray:
    """The arrays [n, *shape] of a column of their bytes, without its nulls."""
    width = column.type.byte_width
    chunks = [chunk.drop_null() if chunk.null_count else chunk for chunk in column.chunks]
    parts = [np.frombuffer(c.buffers()[1], np.uint8)[c.offset * width :][: len(c) * width] for c in chunks]
    return np.concatenate([np.empty(0, np.uint8), *parts]).view(kind).reshape(-1, *shape)
