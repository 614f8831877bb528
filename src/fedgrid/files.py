"""Files that are either whole or absent: Parquet with JSON metadata, written beside the target and renamed."""

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


def write_text(path: Path, text: str) -> None:
    """Writes a text file in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
