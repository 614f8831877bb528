"""Files that are complete or absent: written beside the target and renamed, checked when read.

Every Parquet file carries JSON metadata and a seal: digests of the metadata and of each column's values. A file whose
content has changed since it was written is `Damaged`, and never read silently.

pyarrow is imported where Parquet is written or read: commands that need none of it start in half the time.
"""

import contextlib
import csv
import errno
import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedgrid.errors import Damaged, UserError, reason

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

METADATA, SEAL, SEALED = b"fedgrid", b"seal", "seal"
MOST_BYTES = 64_000_000
"Largest size of a text that a study may name; a larger one was named by mistake."
SURROGATES = re.compile("[\ud800-\udfff]")
"Surrogates: what Python reads a byte as that is not UTF-8. They cannot be written as UTF-8."
Digests = Mapping[str, str | list[str]]
"Digests by column: one, or one for each part that was written."


def reading_errors() -> tuple[type[Exception], ...]:
    """Errors that reading a damaged file may raise; libraries also raise OSError for damage, without a number."""
    import pyarrow as pa

    return (OSError, pa.ArrowException, AttributeError, TypeError, KeyError, ValueError, RecursionError)


def cache(name: str) -> Path:
    """A folder of the user's cache, for files that only save time and do not belong in the store."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedgrid" / name


def path_of(text: str, what: str) -> Path:
    """The path that a user wrote, with ``~`` expanded; UserError, naming the setting `what`, for an impossible path."""
    try:
        path = Path(text).expanduser()
        os.lstat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return path
        raise UserError(f"{what}: no path can be {text[:40]!r} ({reason(error)})") from error
    except (RuntimeError, ValueError) as error:  # the home of an unknown user; a character that no name can have
        raise UserError(f"{what}: no path can be {text[:40]!r} ({error})") from error
    return path


def check_utf8(text: str, what: str) -> None:
    """Raises UserError, beginning with `what`, for a text that cannot be encoded, such as a path that is not UTF-8."""
    if half := SURROGATES.search(text):
        before = re.split('["\n]', text[: half.start()])[-1]  # of the JSON value, or of the line
        after = re.split('["\n]', text[half.start() :], maxsplit=1)[0]
        raise UserError(f"{what}: {before + after!r} is not UTF-8, the only encoding that fedgrid writes")


def check_regular(path: Path, what: str, largest: int = MOST_BYTES) -> None:
    """Raises UserError, beginning with `what`, for a device, a pipe, a folder, or a file of more than `largest` bytes.

    Raises OSError where the path cannot be inspected, for example because it does not exist.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{what} is not a regular file")
    if status.st_size > largest:
        raise UserError(f"{what} has {status.st_size / 1e6:,.1f} MB; at most {largest / 1e6:,.0f} MB are allowed")


def lock(file: int | IO[Any], wait: bool = False, shared: bool = False) -> bool:
    """Locks an open file until it is closed, at the latest when its process ends; False if another has the lock.

    With `wait`, waits until the lock is free. Several processes may have a `shared` lock at once. Raises OSError where
    the file system has no locks.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, which is renamed to `path` at the end and removed after an error."""
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


def check_writable(folder: Path, what: str) -> None:
    """Makes the folder and tries to write in it; UserError, naming the setting `what`, where that fails."""
    probe = folder / f".writable.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"{what}: cannot write in {folder} ({reason(error)})") from error


def write_table(path: Path, table: "pa.Table", metadata: dict[str, Any]) -> None:
    """Writes a Parquet file (zstd) whose schema carries `metadata` as JSON, and a seal of rows and metadata."""
    digests = {name: digest_of_values(table[name]) for name in table.column_names}
    with parquet_writer(path, table.schema.with_metadata(seal(_as_text(metadata), digests))) as writer:
        writer.write_table(table)


def write_parts(path: Path, parts: "pa.RecordBatchReader", metadata: dict[str, Any]) -> None:
    """Writes such a file with one part in memory at a time; each part is a row group with digests of its own."""
    import pyarrow as pa

    text, digests = _as_text(metadata), {name: list[str]() for name in parts.schema.names}
    with parquet_writer(path, parts.schema.with_metadata({METADATA: text})) as writer:
        for part in parts:
            writer.write_batch(part, row_group_size=max(1, len(part)))
            for name, of_parts in digests.items():
                of_parts.append(digest_of_values(pa.chunked_array([part[name]])))
        writer.add_key_value_metadata({SEAL: seal(text, digests)[SEAL]})


@contextmanager
def parquet_writer(path: Path, schema: "pa.Schema") -> Iterator["pq.ParquetWriter"]:
    """A writer of the rows of a Parquet file, which appears at the end; its metadata have to include a `seal`."""
    import pyarrow.parquet as pq

    options = {"compression": "zstd", "write_page_checksum": True}
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, **options) as writer:
        yield writer


def _as_text(metadata: dict[str, Any]) -> str:
    return json.dumps(metadata, sort_keys=True, ensure_ascii=False)


def seal(text: str, columns: Digests | None = None) -> dict[bytes, str]:
    """A file's metadata: the JSON `text` and its seal; without digests, Parquet's page checksums protect the rows."""
    return {METADATA: text, SEAL: json.dumps({"metadata": _digest_of_text(text), "columns": columns})}


def read_table(path: Path, columns: Sequence[str] | None = None) -> tuple["pa.Table", dict[str, Any]]:
    """Rows (of all `columns`, or of those named) and metadata of a sealed Parquet file.

    Raises UserError if the file does not exist, and `Damaged` if its content has changed.
    """
    import pyarrow.parquet as pq

    with reading(path):
        # not pq.read_table, which imports pandas: half a second
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            metadata, digests = _opened(file.metadata.metadata)
            groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            table = file.read(columns=columns and list(columns)).replace_schema_metadata()
        for name in digests or () if columns is None else columns:
            if digests and not _agrees(table[name], digests[name], groups):
                raise ValueError(f"its column {name} has changed since it was written")
        return table, metadata


def read_parts(path: Path, columns: Sequence[str]) -> Iterator["pa.Table"]:
    """Some columns of a sealed Parquet file, in parts of its rows: of one that `write_parts` wrote, those of then.

    Only one part is in memory at a time. Raises as `read_table` does, where a part has changed when its turn comes.
    """
    import pyarrow.parquet as pq

    with reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        digests = _opened(file.metadata.metadata)[1]
        in_groups = digests is not None and all(isinstance(digests[name], list) for name in columns)
        groups = file.num_row_groups if in_groups else 0
    if not in_groups:
        yield read_table(path, columns)[0]
    for group in range(groups):
        with reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read_row_group(group, columns=list(columns)).replace_schema_metadata()
            for name in columns:
                if digests and digest_of_values(table[name]) != digests[name][group]:
                    raise ValueError(f"its column {name} has changed since it was written")
        yield table


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a sealed Parquet file, without its rows; raises as `read_table` does."""
    import pyarrow.parquet as pq

    with reading(path):
        return _opened(pq.read_metadata(path).metadata)[0]


def check_identity(path: Path, **expected: Any) -> None:
    """Raises `Damaged` where a file's metadata contradict its path."""
    metadata = read_metadata(path)
    if any(metadata.get(name) != value for name, value in expected.items()):
        raise Damaged(path, "its content does not belong to its name")


def _opened(footer: Mapping[bytes, bytes] | None) -> tuple[dict[str, Any], Digests | None]:
    """Metadata, and digests by column if there are any; raises one of `reading_errors` where they have changed."""
    stored = footer or {}
    if METADATA not in stored or SEAL not in stored:
        raise ValueError("not a file written by fedgrid")
    text, sums = stored[METADATA].decode(), json.loads(stored[SEAL])
    if _digest_of_text(text) != sums["metadata"]:
        raise ValueError("its metadata have changed since it was written")
    return json.loads(text), sums["columns"]


def _agrees(column: "pa.ChunkedArray", digest: str | list[str], groups: Sequence[int]) -> bool:
    """Whether the digest of a column, or of each group of rows, is the recorded one; `groups` are numbers of rows."""
    if isinstance(digest, str):
        return digest_of_values(column) == digest
    starts = accumulate(groups, initial=0)
    return [digest_of_values(column.slice(start, size)) for start, size in zip(starts, groups, strict=False)] == digest


def digest_of_values(column: "pa.ChunkedArray") -> str:
    """SHA-256 of the values of a column, whatever its chunks and encoding; −0 counts as 0."""
    total = hashlib.sha256(str(len(column)).encode())
    for block in _blocks(column):
        total.update(block)
    return total.hexdigest()


def _blocks(column: "pa.ChunkedArray") -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if column.null_count:
        yield from _plain(column.is_valid().cast(pa.uint8()))
        column = column.drop_null()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if pa.types.is_list(column.type):
        yield from _plain(pc.list_value_length(column))
        yield from _blocks(pc.list_flatten(column))
    elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        yield from _plain(pc.binary_length(column))
        yield from (block for chunk in column.chunks for block in _letters(chunk))
    elif pa.types.is_floating(column.type):
        zero = pa.scalar(0, column.type)
        nan = pa.scalar(float("nan"), column.type)
        yield from _plain(pc.if_else(pc.is_nan(column), nan, pc.add(column, zero)))
    else:
        yield from _plain(column)


def _plain(column: "pa.ChunkedArray") -> Iterator[bytes | memoryview]:
    """The bytes of values of a fixed width."""
    yield str(column.type).encode()
    width = column.type.bit_width // 8
    for chunk in column.chunks:
        if len(chunk):
            yield memoryview(chunk.buffers()[1])[chunk.offset * width :][: len(chunk) * width]


def _letters(chunk: "pa.Array") -> Iterator[memoryview]:
    """The bytes of all texts of a chunk, one after the other."""
    if len(chunk):
        ends = memoryview(chunk.buffers()[1]).cast("i")
        start, end = ends[chunk.offset], ends[chunk.offset + len(chunk)]
        if end > start:
            yield memoryview(chunk.buffers()[2])[start:end]


def _digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def slug(label: str) -> str:
    """A label as part of a file's name: letters, digits, dots, hyphens and underscores stay."""
    return re.sub(r"[^\w.-]+", "-", label)[:100].strip("-.") or "x"


def read_csv(path: Path, what: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the line number and the stripped values of each row of a CSV file that is not blank.

    Raises UserError, beginning with `what`, if the file cannot be read or is not CSV.
    """
    try:
        check_regular(path, what)
        with open(path, encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text, strict=True)
            for values in reader:
                if any(value.strip() for value in values):
                    yield reader.line_num, [value.strip() for value in values]
    except OSError as error:
        raise UserError(f"{what} cannot be read ({reason(error)})") from error
    except (ValueError, csv.Error) as error:
        raise UserError(f"{what} cannot be read as CSV ({error})") from error


def write_text(path: Path, text: str) -> None:
    """Writes a text file in one step."""
    check_utf8(text, f"{path}: cannot be written")
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def as_json(value: Any) -> str:
    """The canonical text of a value: sorted, indented, with a newline at its end."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1) + "\n"


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Writes plain values, in their order, as a sealed JSON file in one step."""
    text = json.dumps(values, ensure_ascii=False)
    check_utf8(text, f"{path}: cannot be written")
    write_text(path, json.dumps({SEALED: _digest_of_text(text), **json.loads(text)}, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The values that `write_json` wrote; raises as `read_table` does."""
    with reading(path):
        values = json.loads(path.read_text(encoding="utf-8"))
        seal = values.pop(SEALED, "") if isinstance(values, dict) else ""
        if not isinstance(values, dict) or seal != _digest_of_text(json.dumps(values, ensure_ascii=False)):
            raise ValueError("its content has changed since it was written")
        return values


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns the errors that reading a file may raise into one sentence."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{path} is not a file")  # from a pipe, reading would wait for ever
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist") from error
    except MemoryError as error:
        raise UserError(f"{path} cannot be read (out of memory)") from error
    except reading_errors() as error:
        if path.is_dir():
            raise UserError(f"{path} is a folder, name a file in it") from error
        if isinstance(error, OSError) and error.errno:  # the file may be intact; the disk or its permissions are not
            raise UserError(f"{path} cannot be read ({reason(error)})") from error
        raise Damaged(path, " ".join(str(error).split()).rstrip(".") or type(error).__name__) from error
