"""Local copies of data sets: ``train.parquet`` and ``test.parquet`` in a folder of the data set's name.

Columns: image (binary), label (integer), and for some sets domain and caption (strings). The schema metadata tells
encoding (raw, jpeg or png), height, width, channels, classes (JSON, in the order of the labels) and a note. A copy may
hold less than the original: fewer images, fewer classes, compressed pictures. What differs becomes its note.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.data.common.columns import encoded, positions
from fedgrid.data.common.images import COLUMNS, PARTS, DatasetInfo, Images, Published, RawDataset
from fedgrid.data.sources import pictures
from fedgrid.data.sources.digests import digest
from fedgrid.errors import UserError, nearest

WORDS = {"train": "training", "test": "test"}
LOSSLESS = ("raw", "png")
ENCODINGS = (*LOSSLESS, "jpeg")


@dataclass(frozen=True)
class Columns:
    """The columns of a user's files that are read besides those that every file has."""

    keep: tuple[str, ...] = ()
    "Those that the data set keeps, so that a partition can make clients of them."
    domain: str = ""
    "The one that is the domain; the column `domain`, where there is one, if empty."


STANDARD = Columns()


@dataclass(frozen=True)
class _Facts:
    """What the footer of a file says of its images."""

    encoding: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    note: str
    domain: str
    "The column of domains; empty where there are none."
    captions: bool
    "Whether there is a column caption."


def is_present(folder: Path) -> bool:
    """Whether both parts lie in `folder`, or `folder` is itself a Parquet file: of the training part alone."""
    return all(file.is_file() for file in _files(folder).values())


def read(folder: Path, original: Published, columns: Columns = STANDARD) -> RawDataset:
    """Both parts of the copy of a data set, in the order of their rows.

    Raises UserError naming the file for one that is damaged, lacks a column or a fact, or has a label out of range.
    """
    facts, counts = _facts(folder, columns)
    domains, kept = _domains(folder, original, facts), _kept(folder, columns.keep)
    parts, first = {}, 0
    for part, file in _files(folder).items():
        some = slice(first, first := first + counts[part])
        kept_of_part = {column: places[some] for column, (places, _) in kept.items()}
        parts[part] = replace(_images(file, facts, domains), kept=kept_of_part)
    parts = dict.fromkeys(PARTS, parts["train"].rows(slice(0))) | parts
    names = {column: values for column, (_, values) in kept.items()}
    return RawDataset(parts, facts.classes, domains, _note(original, facts, counts), kept=names)


def info(folder: Path, original: Published, columns: Columns = STANDARD) -> DatasetInfo:
    """What the copy holds, by the files' footers, their domains and the columns that are kept alone.

    A copy that is lossless and complete is the original where the original's checksum is known; every other copy is
    identified by its bytes.
    """
    facts, counts = _facts(folder, columns)
    same = original.checksum and not _note(original, facts, counts)
    copy = "" if same else _identity(folder)
    kept = {column: len(values) for column, (_, values) in _kept(folder, columns.keep).items()}
    return DatasetInfo(counts, facts.shape, facts.classes, _domains(folder, original, facts), copy, kept=kept)


def _files(folder: Path) -> dict[str, Path]:
    return {"train": folder} if folder.is_file() else {part: folder / f"{part}.parquet" for part in PARTS}


def _facts(folder: Path, columns: Columns) -> tuple[_Facts, dict[str, int]]:
    """The facts of both files, which must agree, and the number of images of every part."""
    facts, counts = {}, dict.fromkeys(PARTS, 0)
    for part, path in _files(folder).items():
        with _naming(path), pq.ParquetFile(path) as file:
            facts[part] = _parsed(path, file.schema_arrow, columns)
            counts[part] = file.metadata.num_rows
    if any(fact != facts["train"] for fact in facts.values()):
        raise UserError(f"{folder}: train.parquet and test.parquet differ in encoding, shape, classes, note or columns")
    return facts["train"], counts


def _parsed(file: Path, schema: pa.Schema, columns: Columns) -> _Facts:
    facts = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    missing = [name for name in ("image", "label") if name not in schema.names]
    missing += [name for name in ("encoding", "height", "width", "channels", "classes") if name not in facts]
    if missing:
        raise UserError(f"{file}: the columns or metadata lack {', '.join(missing)}")
    kind = schema.field("image").type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise UserError(f"{file}: the column image holds {kind}, expected binary")
    if facts["encoding"] not in ENCODINGS:
        raise UserError(f"{file}: images are encoded as '{facts['encoding']}', not as {', '.join(ENCODINGS)}")
    height, width, channels = (int(facts[side]) for side in ("height", "width", "channels"))
    shape = height, width, channels
    if channels not in pictures.MODES or min(shape) < 1:
        raise UserError(f"{file}: images have the shape {shape}, expected height, width, and 1 or 3 channels")
    classes = tuple(map(str, json.loads(facts["classes"])))
    _check_columns(file, schema.names, columns)
    domain = columns.domain or "domain" * ("domain" in schema.names)
    return _Facts(facts["encoding"], shape, classes, facts.get("note", ""), domain, "caption" in schema.names)


def _check_columns(file: Path, names: Sequence[str], columns: Columns) -> None:
    """Raises UserError for a column that is not there, or that cannot be kept under its name."""
    free = [name for name in names if name not in COLUMNS]
    for column in columns.keep:
        if column in COLUMNS:
            other = "; natural clients take domains by `by: domain`" if column == "domain" else ""
            raise UserError(f"data.keep: '{column}' has a meaning of its own and is not kept{other}")
        if column not in names:
            raise UserError(f"data.keep: {file} has no column '{column}'; {nearest(column, free)}")
    if columns.domain and columns.domain not in names:
        raise UserError(f"data.domain: {file} has no column '{columns.domain}'; {nearest(columns.domain, free)}")


def _kept(folder: Path, columns: Sequence[str]) -> dict[str, tuple[np.ndarray, tuple[str, ...]]]:
    """By column that is kept, each image's position among its values, [n] part after part, and the values, sorted."""
    kept = {}
    for column in columns:
        chunks = [chunk for file in _files(folder).values() for chunk in _texts(file, column).chunks]
        kept[column] = encoded(pa.chunked_array(chunks, pa.string()))
    return kept


def _texts(file: Path, column: str) -> pa.ChunkedArray:
    """A column that is kept, as texts; UserError where an image has no value."""
    with _naming(file), pq.ParquetFile(file) as table:
        texts = table.read(columns=[column])[column].cast(pa.string())
    if texts.null_count:
        lacking = f"{texts.null_count:,} of {len(texts):,} images"
        raise UserError(f"{file}: {lacking} lack a value in the column '{column}'; fill it in")
    return texts


def _domains(folder: Path, original: Published, facts: _Facts) -> tuple[str, ...]:
    """The copy's domains: those of the original in its order, then others by name."""
    if not facts.domain:
        return ()
    texts = (name for file in _files(folder).values() for name in _lines(file, facts.domain))
    names = {_canonical(name, original.domains) for name in texts}
    known = [name for name in original.domains if name in names]
    return (*known, *sorted(names.difference(known)))


def _canonical(name: str, known: tuple[str, ...]) -> str:
    return next((k for k in known if k.lower() == name.lower()), name)


def _images(file: Path, facts: _Facts, domains: tuple[str, ...]) -> Images:
    with _naming(file):
        labels = pq.read_table(file, columns=["label"])["label"].to_numpy().astype(np.int64)
        check_range(f"{file}: contains a label", labels, len(facts.classes))
        names = [name.lower() for name in _lines(file, facts.domain)] if domains else []
        places = positions(names, [name.lower() for name in domains]) if domains else None
        captions = _lines(file, "caption") if facts.captions else None
        return Images(_pixels(file, facts), labels, places, captions)


def check_range(what: str, numbers: np.ndarray, count: int) -> None:
    """Raises UserError, which begins with `what`, where not all numbers are from 0 to `count` - 1."""
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
        raise UserError(f"{what} outside 0..{count - 1}")


def _pixels(file: Path, facts: _Facts) -> np.ndarray:
    with pq.ParquetFile(file) as table:
        columns = (batch["image"].fill_null(b"") for batch in table.iter_batches(columns=["image"]))
        rows = (row for column in columns for row in column.to_pylist())
        if facts.encoding == "raw":
            return np.frombuffer(bytearray().join(rows), np.uint8).reshape(-1, *facts.shape)
        pixels = pictures.decoded(rows, None, facts.shape[2], where=str(file))
    if len(pixels) and pixels.shape[1:] != facts.shape:
        raise UserError(f"{file}: pictures have the shape {pixels.shape[1:]}, its metadata say {facts.shape}")
    return pixels.reshape(-1, *facts.shape)


def _lines(file: Path, column: str) -> list[str]:
    with _naming(file):
        texts: list[str] = pq.read_table(file, columns=[column])[column].cast(pa.string()).fill_null("").to_pylist()
        return texts


def _note(original: Published, facts: _Facts, counts: dict[str, int]) -> str:
    """How the copy differs from the original, in its file's own words too; empty where it does not."""
    if not original.images:  # the files are the original
        return facts.note
    few = [
        f"{counts[part]:,} of {original.images[part]:,} {WORDS[part]} images"
        for part in PARTS
        if counts[part] != original.images[part]
    ]
    if facts.classes != original.classes:
        few.append(f"{len(facts.classes)} of {len(original.classes)} classes")
    differences = [f"lossy copy ({facts.encoding})"] if facts.encoding not in LOSSLESS else []
    differences += [f"partial copy: {', '.join(few)}"] if few else []
    return ". ".join([*differences, facts.note]).strip(". ") + "." if differences else ""


def _identity(folder: Path) -> str:
    total = hashlib.sha256("".join(digest(path) for path in _files(folder).values()).encode())
    return total.hexdigest()[:16]


@contextlib.contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Errors of reading, as one sentence naming the file."""
    try:
        yield
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"{file}: incomplete or damaged data set file ({why}); replace it") from error
