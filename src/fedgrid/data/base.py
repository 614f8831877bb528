"""What every data set is: labelled images, split into the parts that its authors published."""

import abc
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.components import Component
from fedgrid.errors import UserError
from fedgrid.files import read_metadata, write_table

PARTS = ("train", "test")


@dataclass(frozen=True)
class Images:
    """Images uint8 [n, height, width, channels] and their labels int64 [n]."""

    pixels: np.ndarray
    labels: np.ndarray


class DataSet(Component, abc.ABC):
    """A data set; a subclass states its facts and says where its images come from."""

    images: ClassVar[int]
    "Number of images, all parts together."
    checksum: ClassVar[str] = ""
    "SHA-256 of all pixels and labels (see `_checksum`), where every copy must be the same."
    shape: ClassVar[tuple[int, int, int]]
    "Height, width, channels."
    classes: ClassVar[tuple[str, ...]]
    "Names in the order of the labels."
    scale: ClassVar[float] = 255.0
    "The largest pixel value; inputs are (pixel / scale - mean) / std."
    mean: ClassVar[tuple[float, ...]] = (0.0,)
    std: ClassVar[tuple[float, ...]] = (1.0,)
    "Normalisation constants, one a channel, after division by `scale`."

    @classmethod
    def facts(cls) -> dict[str, Any]:
        return {"images": cls.images, "shape": list(cls.shape), "classes": len(cls.classes)}

    @abc.abstractmethod
    def load(self, root: Path | None, download: Path | None) -> Mapping[str, Images]:
        """The images of every part in `PARTS`; a part that the authors did not publish is empty.

        Local files are looked for under `root`; a download, where `download` is given, is kept there. Raises UserError
        with what to put where.
        """

    @abc.abstractmethod
    def found(self, root: Path | None) -> bool:
        """Whether `load` needs no network."""


@dataclass(frozen=True)
class Pool:
    """All images of a data set, the parts one after the other, and the facts kept in its files."""

    images: Images
    facts: dict[str, Any]


def convert(data: DataSet, root: Path | None, download: Path | None, outputs: Mapping[str, Path]) -> None:
    """Writes one Parquet file for every part: raw pixels (fixed-size binary), label (int16), facts as metadata."""
    parts = data.load(root, download)
    for part in PARTS:
        _check(data, part, parts[part])
    checksum = _checksum(parts)
    if data.checksum and checksum != data.checksum:
        raise UserError(f"data '{type(data).__name__.lower()}': the images are not those of the original data set")
    facts = {
        "shape": list(data.shape),
        "classes": list(data.classes),
        "scale": data.scale,
        "mean": list(data.mean),
        "std": list(data.std),
        "source": data.source,
        "checksum": checksum,
    }
    for part in PARTS:
        flat = np.ascontiguousarray(parts[part].pixels).reshape(-1)
        size = int(np.prod(data.shape))
        pixels = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(flat) // size, [None, pa.py_buffer(flat)])
        table = pa.table({"image": pixels, "label": pa.array(parts[part].labels, pa.int16())})
        write_table(outputs[part], table, facts | {"part": part})


def read(files: Mapping[str, Path]) -> Pool:
    """The whole data set from the files that `convert` wrote."""
    facts = read_metadata(files["train"])
    tables = [pq.read_table(files[part]) for part in PARTS]
    pixels = [_pixels(table["image"], facts["shape"]) for table in tables]
    labels = [table["label"].to_numpy().astype(np.int64) for table in tables]
    return Pool(Images(np.concatenate(pixels), np.concatenate(labels)), facts)


def read_labels(files: Mapping[str, Path]) -> tuple[np.ndarray, dict[str, Any]]:
    """Labels int64 [n] of the whole data set and its facts, without the images."""
    labels = [pq.read_table(files[part], columns=["label"])["label"].to_numpy() for part in PARTS]
    return np.concatenate(labels).astype(np.int64), read_metadata(files["train"])


def _pixels(column: pa.ChunkedArray, shape: list[int]) -> np.ndarray:
    chunks = [np.frombuffer(c.buffers()[1], np.uint8)[c.offset * c.type.byte_width :] for c in column.chunks]
    sized = [flat[: len(c) * c.type.byte_width] for flat, c in zip(chunks, column.chunks, strict=True)]
    return np.concatenate([np.empty(0, np.uint8), *sized]).reshape(-1, *shape)


def _check(data: DataSet, part: str, images: Images) -> None:
    name = type(data).__name__.lower()
    if images.pixels.shape[1:] != data.shape or len(images.pixels) != len(images.labels):
        raise UserError(f"data '{name}': the {part} part has images of another shape than {data.shape}")
    if len(images.labels) and not 0 <= images.labels.min() <= images.labels.max() < len(data.classes):
        raise UserError(f"data '{name}': the {part} part has a label outside 0..{len(data.classes) - 1}")


def _checksum(parts: Mapping[str, Images]) -> str:
    total = hashlib.sha256()
    for part in PARTS:
        total.update(np.ascontiguousarray(parts[part].pixels).tobytes())
        total.update(parts[part].labels.astype("<i8").tobytes())
    return total.hexdigest()
