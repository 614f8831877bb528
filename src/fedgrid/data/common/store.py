"""The files of a built data set: Parquet with raw pixels, labels and domains, and the facts as metadata."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.data.common.columns import numbers, positions
from fedgrid.data.common.images import PARTS, Images
from fedgrid.files import read_metadata, read_table, write_table


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


def write(outputs: Mapping[str, Path], parts: Mapping[str, Images], facts: Mapping[str, Any]) -> None:
    """Writes the prepared parts of a data set; see `read`."""
    for part in PARTS:
        write_table(outputs[part], _table(parts[part], facts["domains"]), dict(facts) | {"part": part})


def read(files: Mapping[str, Path]) -> Pool:
    """The whole data set from the files that `write` wrote."""
    facts, tables = _opened(files, ["image", "label"])
    pixels = [_pixels(table["image"], facts) for table in tables]
    labels = [numbers(table["label"]).astype(np.int64) for table in tables]
    return Pool(Images(np.concatenate(pixels), np.concatenate(labels)), facts)


def read_labels(files: Mapping[str, Path]) -> tuple[Labels, dict[str, Any]]:
    """Labels and domains of the whole data set, and its facts, without the images."""
    columns = ["label", "domain"] if read_metadata(files["train"])["domains"] else ["label"]
    facts, tables = _opened(files, columns)
    table = pa.concat_tables(tables)
    domains = positions(table["domain"].to_pylist(), facts["domains"]) if facts["domains"] else None
    labels = numbers(table["label"]).astype(np.int64)
    counts = facts["images"]["train"], len(facts["classes"])
    return Labels(labels, *counts, domains, tuple(facts["domains"]), facts["checksum"]), facts


def checksum_of(parts: Mapping[str, Images]) -> str:
    """SHA-256 over the parts, in order: all pixels, all labels (int64, little-endian), all domains if there are any."""
    total = hashlib.sha256()
    for part in PARTS:
        total.update(np.ascontiguousarray(parts[part].pixels).tobytes())
        total.update(parts[part].labels.astype("<i8").tobytes())
        if (domains := parts[part].domains) is not None:
            total.update(domains.astype("<i8").tobytes())
    return total.hexdigest()


def _opened(files: Mapping[str, Path], columns: Sequence[str]) -> tuple[dict[str, Any], list[pa.Table]]:
    """The facts, and the given columns of every part."""
    opened = [read_table(files[part], columns) for part in PARTS]
    return opened[0][1], [table for table, _ in opened]


def _table(images: Images, domains: list[str]) -> pa.Table:
    flat = np.ascontiguousarray(images.pixels)
    size = int(np.prod(flat.shape[1:])) * flat.itemsize
    pixels = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(flat), [None, pa.py_buffer(flat)])
    columns = {"image": pixels, "label": pa.array(images.labels, pa.int16())}
    if images.domains is not None:
        places = pa.array(images.domains, pa.int16())
        columns["domain"] = pa.DictionaryArray.from_arrays(places, pa.array(domains, pa.string()))
    if images.captions is not None:
        columns["caption"] = pa.array(images.captions, pa.string())
    return pa.table(columns)


def _pixels(column: pa.ChunkedArray, facts: Mapping[str, Any]) -> np.ndarray:
    width = column.type.byte_width
    chunks = [np.frombuffer(c.buffers()[1], np.uint8)[c.offset * width :][: len(c) * width] for c in column.chunks]
    flat = np.concatenate([np.empty(0, np.uint8), *chunks])
    return flat.view(facts["dtype"]).reshape(-1, *facts["shape"])
