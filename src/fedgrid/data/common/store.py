"""The files of a built data set: Parquet with raw pixels, labels and domains, and the facts as metadata."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.data.common.columns import encoded, fixed, fixed_column, numbers, positions
from fedgrid.data.common.images import PARTS, Images
from fedgrid.files import read_metadata, read_table, write_table

TOKEN = "<u2"
"The type of tokens in files."
FEW, MANY = pa.int16(), pa.int32()
"Types of positions in files: of domains and modalities, and of the values of columns that are kept."


@dataclass(frozen=True)
class Pool:
    """All images of a data set, the parts one after the other, and the facts kept in its files."""

    images: Images
    facts: dict[str, Any]


@dataclass(frozen=True)
class Labels:
    """What a partition looks at: everything but the images."""

    labels: np.ndarray
    "int64 [n], the parts one after the other: the training part first."
    train: int
    "Number of images in the training part."
    classes: int
    domains: np.ndarray | None = None
    "Positions in `domain_names`, int64 [n]."
    domain_names: tuple[str, ...] = ()
    checksum: str = ""
    "Of the data set whose labels these are."
    modality: np.ndarray | None = None
    "Positions in `modalities`, int64 [n]."
    modalities: tuple[str, ...] = ()
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)
    "By column that is kept: positions in its `kept_names`, int64 [n]."
    kept_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "By column that is kept: its different values, sorted."


def write(
    outputs: Mapping[str, Path],
    parts: Mapping[str, Images],
    facts: Mapping[str, Any],
    kept_names: Mapping[str, Sequence[str]] = {},
) -> None:
    """Writes the prepared parts of a data set; see `read`. `kept_names` are the values of the columns that are kept.

    The facts list these columns alone: thousands of values are read from the columns themselves.
    """
    listed = {"kept": sorted(kept_names)} if kept_names else {}
    for part in PARTS:
        table = _table(parts[part], facts, kept_names)
        write_table(outputs[part], table, dict(facts) | listed | {"part": part})


def read(files: Mapping[str, Path]) -> Pool:
    """The whole data set from the files that `write` wrote."""
    optional = ["modality", "tokens"] if modalities_of(read_metadata(files["train"])) else []
    facts, tables = _opened(files, ["image", "label", *optional])
    table = pa.concat_tables(tables)
    labels = numbers(table["label"]).astype(np.int64)
    images = Images(fixed(table["image"], facts["dtype"], facts["shape"]), labels)
    if optional:
        modality = positions(table["modality"].to_pylist(), facts["modalities"])
        images = replace(images, modality=modality, tokens=fixed(table["tokens"], TOKEN, facts["captions"]))
    return Pool(images, facts)


def modalities_of(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The modalities of a data set with these facts; those of most data sets do not speak of any."""
    return tuple(facts.get("modalities", ()))


def read_labels(files: Mapping[str, Path]) -> tuple[Labels, dict[str, Any]]:
    """Labels, domains and kept columns of the whole data set, and its facts, without the images."""
    metadata = read_metadata(files["train"])
    names = {"domain": tuple(metadata["domains"]), "modality": modalities_of(metadata)}
    kept = metadata.get("kept", [])
    facts, tables = _opened(files, ["label", *(column for column, known in names.items() if known), *kept])
    table = pa.concat_tables(tables)
    domains, modality = (positions(table[c].to_pylist(), known) if known else None for c, known in names.items())
    labels = numbers(table["label"]).astype(np.int64)
    counts = facts["images"]["train"], len(facts["classes"])
    columns = {column: encoded(table[column]) for column in kept}
    pool = Labels(
        labels,
        *counts,
        domains,
        names["domain"],
        facts["checksum"],
        modality,
        names["modality"],
        kept={column: places for column, (places, _) in columns.items()},
        kept_names={column: values for column, (_, values) in columns.items()},
    )
    return pool, facts


def checksum_of(parts: Mapping[str, Images]) -> str:
    """SHA-256 over the parts, in order: all pixels, all labels (int64, little-endian), all domains if there are any.

    Columns that are kept follow, sorted by name: the name (UTF-8) and the positions (int64). Modalities (int64) and
    tokens (uint16), where there are any, come last.
    """
    total = hashlib.sha256()
    for part in PARTS:
        total.update(np.ascontiguousarray(parts[part].pixels).tobytes())
        total.update(parts[part].labels.astype("<i8").tobytes())
        if (domains := parts[part].domains) is not None:
            total.update(domains.astype("<i8").tobytes())
        for column, places in sorted(parts[part].kept.items()):
            total.update(column.encode() + places.astype("<i8").tobytes())
        if (modality := parts[part].modality) is not None:
            total.update(modality.astype("<i8").tobytes())
        if (tokens := parts[part].tokens) is not None:
            total.update(tokens.astype(TOKEN).tobytes())
    return total.hexdigest()


def _opened(files: Mapping[str, Path], columns: Sequence[str]) -> tuple[dict[str, Any], list[pa.Table]]:
    """The facts, and the given columns of every part."""
    opened = [read_table(files[part], columns) for part in PARTS]
    return opened[0][1], [table for table, _ in opened]


def _table(images: Images, facts: Mapping[str, Any], kept_names: Mapping[str, Sequence[str]]) -> pa.Table:
    columns = {"image": fixed_column(images.pixels), "label": pa.array(images.labels, pa.int16())}
    if images.modality is not None and images.tokens is not None:  # a sample has pixels, or it has tokens
        columns["image"] = _at(images.modality == 0, columns["image"])
        columns["tokens"] = _at(images.modality == 1, fixed_column(images.tokens.astype(TOKEN)))
        columns["modality"] = _named(images.modality, facts["modalities"])
    if images.domains is not None:
        columns["domain"] = _named(images.domains, facts["domains"])
    if images.captions is not None:
        columns["caption"] = pa.array(images.captions, pa.string())
    for column, names in kept_names.items():
        columns[column] = _named(images.kept[column], names, MANY)
    return pa.table(columns)


def _named(places: np.ndarray, names: Sequence[str], kind: pa.DataType = FEW) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(places, kind), pa.array(names, pa.string()))


def _at(rows: np.ndarray, values: pa.Array) -> pa.Array:
    """The values in order at the `rows` [n] that are true, null at the others."""
    return values.take(pa.array(np.cumsum(rows) - 1, mask=~rows))
