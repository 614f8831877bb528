"""Files that are either whole or absent: Parquet with JSON metadata, written beside the target and renamed."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.errors import UserError, reason

METADATA = b"fedgrid"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the folder of `path`; renamed to `path` at the end, removed after an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())  # or a power cut may leave an empty file under the final name
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({reason(error)})") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def turn(file: Path, number: int) -> Iterator[None]:
    """Lets one process at a time in, of all that name the same number; the others wait.

    The lock is one byte of `file`, which is made; the system takes it back when its holder ends, however it ends.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = open(file, "a")  # noqa: SIM115  closed below
    except OSError as error:
        raise UserError(f"{file}: cannot be written ({reason(error)})") from error
    with lock:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, number)
        yield


def check_writable(folder: Path, what: str) -> None:
    """Makes the folder and tries to write there; UserError, naming `what` the user set, where that fails."""
    probe = folder / f".writable.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"{what}: cannot write in {folder} ({reason(error)})") from error


def write_table(path: Path, table: pa.Table, metadata: dict[str, Any]) -> None:
    """Writes a Parquet file (zstd) whose schema carries `metadata` as JSON."""
    text = json.dumps(metadata, sort_keys=True, ensure_ascii=False)
    with replacing(path) as temporary:
        pq.write_table(table.replace_schema_metadata({METADATA: text}), temporary, compression="zstd")


def beside(file: Path, kinds: Iterable[str]) -> list[Path]:
    """The files of what is kept beside a cell's results in `file`: ``x.clusters.parquet`` beside ``x.parquet``."""
    return [file.with_suffix(f".{kind}.parquet") for kind in kinds]


def write_text(path: Path, text: str) -> None:
    """Writes a text file in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Numbers [n] as a column of that kind. pyarrow's own conversions import pandas, which takes half a second."""
    values = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def texts(values: Sequence[str]) -> pa.Array:
    """Texts [n] as a column; see `column`."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def positions(names: Sequence[str], known: Sequence[str]) -> np.ndarray:
    """Where each of the names [n] stands in `known`, int64 [n]; KeyError for one that does not."""
    place = {name: number for number, name in enumerate(known)}
    return np.array([place[name] for name in names], np.int64)


def numbers(found: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The numbers [n] of a column that has no nulls; see `column`."""
    kind = np.dtype(found.type.to_pandas_dtype())
    chunks = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
    parts = [np.frombuffer(c.buffers()[1], kind)[c.offset :][: len(c)] for c in chunks if len(c)]
    return np.concatenate([np.empty(0, kind), *parts])


def as_json(value: Any) -> str:
    """The one text of a value: sorted, indented, with a newline at its end."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Writes plain values as a JSON file with sorted keys, in one step."""
    write_text(path, as_json(value))


def read_metadata(path: Path) -> dict[str, Any]:
    """The JSON metadata of a Parquet file of fedgrid; UserError where there is none or the file is damaged."""
    if path.is_dir():
        raise UserError(f"{path} is a folder, name a file in it")
    try:
        return json.loads(pq.read_schema(path).metadata[METADATA])
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist") from error
    except (OSError, pa.ArrowException, TypeError, KeyError, ValueError) as error:
        raise UserError(f"{path}: not a whole fedgrid file ({type(error).__name__}); delete it") from error
