"""A table, CSV or Parquet, with the columns client, split and one of index, file and digest; perhaps also label."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from fedgrid.errors import UserError, nearest
from fedgrid.partition.common.rows import EVERYONE
from fedgrid.partition.importing.rows import (
    LARGEST_NUMBER,
    NAMINGS,
    ImportedRows,
    Naming,
    check_shared,
    numbered,
    split_number,
)

ADVICE = "a table needs the columns client, split and one of index, file and digest"
DIGEST = r"^[0-9a-f]{64}$"


def read_table(file: Path) -> ImportedRows:
    """The rows of a CSV or Parquet file; UserError in one sentence for anything that is no such table."""
    table = _opened(file)
    naming = _naming(table, file)
    if not len(table):
        raise UserError(f"{file}: has no rows")
    for name in ("client", "split", naming):
        if blank := _first(_is_blank(table[name])):
            raise UserError(f"{file}: row {blank} has no {name}")
    names, client = _clients(table["client"], file)
    split = _splits(table["split"], file)
    if naming == "digest":
        image = _digests(table["digest"], file)
    else:
        image = _whole(table["index"], "index", file) if naming == "index" else _texts(table["file"])
    label = _whole(table["label"], "label", file) if "label" in table.column_names else None
    form = f"{'Parquet' if file.suffix.lower() == '.parquet' else 'CSV'} of {NAMINGS[naming]}"
    rows = ImportedRows(names, client, split, naming, image, label, form)
    check_shared(rows, str(file))
    return rows


def _opened(file: Path) -> pa.Table:
    is_parquet = file.suffix.lower() == ".parquet"
    try:
        if is_parquet:
            with pq.ParquetFile(file) as opened:
                return opened.read().replace_schema_metadata()
        texts = dict.fromkeys(("split", "file", "digest"), pa.string())
        options = pyarrow.csv.ConvertOptions(column_types=texts, strings_can_be_null=True)
        table = pyarrow.csv.read_csv(file, convert_options=options)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        problem = " ".join(str(error).split()).rstrip(".")[:160] or type(error).__name__
        raise UserError(f"{file}: cannot be read as {'Parquet' if is_parquet else 'CSV'} ({problem})") from error
    if unread := [field.name for field in table.schema if pa.types.is_binary(field.type)]:
        raise UserError(f"{file}: cannot be read as CSV (the column '{unread[0][:40]}' is not text in UTF-8)")
    return table.rename_columns([name.strip() for name in table.column_names])


def _naming(table: pa.Table, file: Path) -> Naming:
    """The column that names images; UserError for other columns than are needed."""
    present = table.column_names
    if repeated := sorted({name for name in present if present.count(name) > 1}):
        raise UserError(f"{file}: duplicate column '{repeated[0]}'")
    for name in ("client", "split"):
        if name not in present:
            raise UserError(f"{file}: the column '{name}' is missing; {ADVICE}, not {', '.join(present)[:120]}")
    namings = [naming for naming in NAMINGS if naming in present]
    if len(namings) > 1:
        raise UserError(f"{file}: both '{namings[0]}' and '{namings[1]}' name the images; keep one of them")
    if not namings:
        others = [name for name in present if name not in ("client", "split", "label")]
        hint = f" ('{others[0]}': {nearest(others[0], NAMINGS)})" if others else ""
        raise UserError(f"{file}: no column names the images{hint}; {ADVICE}")
    return namings[0]


def _clients(column: pa.ChunkedArray, file: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the clients, and the number of each row's, [n]; −1 stands for all clients."""
    if pa.types.is_floating(column.type):
        column = pa.chunked_array([pa.array(_whole(column, "client", file))])
    names = _texts(column)
    known, positions = numbered([name for name in {*names.tolist()} if name != str(EVERYONE)])
    if not known:
        raise UserError(f"{file}: all rows are of client {EVERYONE}, which stands for all clients; name some")
    if negative := next((name for name in known if name.startswith("-") and name[1:].isdigit()), None):
        raise UserError(f"{file}: client {negative} is negative; clients are names, or numbers from 0")
    positions[str(EVERYONE)] = EVERYONE
    values, inverse = np.unique(names, return_inverse=True)
    return known, np.array([positions[name] for name in values], np.int64)[inverse]


def _splits(column: pa.ChunkedArray, file: Path) -> np.ndarray:
    values, inverse = np.unique(_texts(column), return_inverse=True)
    numbers = [split_number(name, f"{file}: row {1 + int(np.argmax(inverse == i))}") for i, name in enumerate(values)]
    return np.array(numbers, np.int64)[inverse]


def _digests(column: pa.ChunkedArray, file: Path) -> np.ndarray:
    digests = pc.utf8_lower(pa.array(_texts(column).tolist(), pa.string()))
    if wrong := _first(pc.invert(pc.match_substring_regex(digests, DIGEST))):
        value = digests[wrong - 1].as_py()[:70]
        raise UserError(f"{file}: row {wrong} has the digest {value!r}, and has to have a SHA-256, of 64 hex digits")
    return np.array(digests.to_pylist(), object)


def _whole(column: pa.ChunkedArray, name: str, file: Path) -> np.ndarray:
    """A column of whole numbers from 0 (clients: from −1), int64 [n]; UserError for any other value."""
    flaw = f"{file}: the column '{name}' must be whole numbers"
    if column.null_count:
        raise UserError(f"{flaw}; row {_first(pc.is_null(column))} has none")
    if pa.types.is_boolean(column.type):
        raise UserError(f"{flaw}, not true or false")
    try:
        numbers: np.ndarray = column.cast(pa.int64()).to_numpy()
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise UserError(f"{flaw} ({' '.join(str(error).split())[:120]})") from error
    low = EVERYONE if name == "client" else 0
    if len(numbers) and not low <= numbers.min() <= numbers.max() <= LARGEST_NUMBER:
        row = int(np.argmax((numbers < low) | (numbers > LARGEST_NUMBER)))
        raise UserError(f"{flaw} from 0; row {row + 1} has {numbers[row]}")
    return numbers


def _texts(column: pa.ChunkedArray) -> np.ndarray:
    """A column as texts without blanks around them, [n]."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.array([str(value).strip() for value in column.to_pylist()], object)


def _is_blank(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([value is None or value != value or not str(value).strip() for value in column.to_pylist()])


def _first(mask: pa.Array) -> int:
    """The first row that a mask [n] marks, counted from 1; 0 where it marks none."""
    marked = np.flatnonzero(np.asarray(mask))
    return int(marked[0]) + 1 if len(marked) else 0
