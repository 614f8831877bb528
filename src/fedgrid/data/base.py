"""What every data set is: labelled images, split into the parts that its authors published, in domains if it has any.

A data set says where its original files come from (`original`); local Parquet copies, preprocessing, checks and the
form of the files that everything else reads are the same for all and written here.
"""

import abc
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.components import Component, hp
from fedgrid.errors import UserError
from fedgrid.files import numbers, positions, read_metadata, write_table

PARTS = ("train", "test")


@dataclass(frozen=True)
class Images:
    """Images [n, height, width, channels] (uint8, or float32 features), labels int64 [n], and what some sets add."""

    pixels: np.ndarray
    labels: np.ndarray
    domains: np.ndarray | None = None
    "Positions in the set's list of domains, int64 [n]."
    captions: list[str] | None = None


@dataclass(frozen=True)
class Collection:
    """A data set as one of its sources gives it."""

    parts: Mapping[str, Images]
    "By the names in `PARTS`; a part that the authors did not publish is empty."
    classes: tuple[str, ...]
    domains: tuple[str, ...] = ()
    note: str = ""
    "What a reader of results must know where this is not the original, pixel by pixel: lossy, partial, resized."


@dataclass(frozen=True)
class Form:
    """What a study must know of a data set before it is built."""

    images: Mapping[str, int]
    "Number of images of every part."
    shape: tuple[int, int, int]
    "Height, width, channels of a prepared image."
    classes: tuple[str, ...]
    domains: tuple[str, ...] = ()
    copy: str = ""
    "Identity of a local copy; empty for the original, whichever source it comes from."


class DataSet(Component, abc.ABC):
    """A data set; a subclass states the facts of the original and says where its files come from."""

    side: int | None = hp(None, low=1, high=1024)
    "Height and width to which images are resized (antialiased bilinear); as published where none is given."
    colour: bool = hp(False)
    "Whether grey images get three equal channels."

    images: ClassVar[Mapping[str, int]]
    "Number of images of every part of the original."
    shape: ClassVar[tuple[int, int, int]]
    "Height, width, channels of the original."
    classes: ClassVar[tuple[str, ...]]
    "Names in the order of the labels."
    domains: ClassVar[tuple[str, ...]] = ()
    "Names of the domains, where there are several."
    checksum: ClassVar[str] = ""
    "SHA-256 of the original's pixels and labels (`checksum_of`), where it is known."
    scale: ClassVar[float] = 255.0
    "The largest pixel value; inputs are (pixel / scale - mean) / std."
    mean: ClassVar[tuple[float, ...]] = (0.0,)
    std: ClassVar[tuple[float, ...]] = (1.0,)
    "Normalisation constants, one a channel or one for all, after division by `scale`."
    wanted: ClassVar[str] = ""
    "Which original files to put where: '<files> into <data_root>/<folder>'."

    @classmethod
    def facts(cls) -> dict[str, Any]:
        """Of the original, where there is one: what `fedgrid datasets` shows."""
        images, shape, classes = (getattr(cls, name, None) for name in ("images", "shape", "classes"))
        if not all(isinstance(fact, Mapping | tuple) for fact in (images, shape, classes)):
            return {}  # they depend on settings
        parts = " + ".join(f"{images[part]:,}" for part in PARTS)
        return {"images": parts, "shape": list(shape), "classes": len(classes), "domains": list(cls.domains)}

    @property
    def name(self) -> str:
        """The name of the data set: that of its file."""
        return type(self).__module__.rpartition(".")[2]

    @abc.abstractmethod
    def original(self, folder: Path, download: bool) -> Collection | None:
        """The data set from its authors' own files under `folder`, downloaded to there first if `download`.

        None where they are not there and not to be downloaded. Raises UserError for damaged files and for a download
        that fails.
        """

    def found(self, root: Path | None) -> bool:
        """Whether the images are at hand under `root`, without reading them all."""
        from fedgrid.data.sources import parquet

        return root is not None and (parquet.found(root / self.name) or self.original_found(root))

    def original_found(self, root: Path) -> bool:
        """Whether the authors' own files lie under `root`."""
        return False

    def form(self, root: Path | None) -> Form:
        """The form in which `load` would give the data set; a local Parquet copy may hold less than the original."""
        from fedgrid.data.sources import parquet

        original = Form(self.images, self.prepared_shape(self.shape), self.classes, self.domains)
        if root is None or not parquet.found(root / self.name):
            return original
        return parquet.form(root / self.name, self, original)

    def load(self, root: Path | None, download: Path | None) -> Collection:
        """The images as the first source that has them gives them: Parquet, or the original files, or a download.

        Local files are looked for under `root`; a download, where `download` is given, is kept there. Raises UserError
        with what to put where.
        """
        from fedgrid.data.sources import parquet

        if root and parquet.found(root / self.name):
            return parquet.read(root / self.name, self)
        for folder, fetch in ((root, False), (download, True)):
            found = self.original(folder, fetch) if folder else None
            if found is not None:
                return found
        also = f", or {self.wanted}" if self.wanted else ""
        raise UserError(
            f"data '{self.name}' is not at hand: put train.parquet and test.parquet into <data_root>/{self.name}"
            f"{also}, or allow the download (download: true)"
        )

    def prepared_shape(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """The shape of images of the given (height, width, channels) once they are resized and coloured."""
        height, width, channels = shape
        if self.side:
            height = width = self.side
        return height, width, 3 if self.colour else channels


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


def convert(data: DataSet, root: Path | None, download: Path | None, outputs: Mapping[str, Path]) -> None:
    """Writes one Parquet file for every part, all or none: pixels, label, domain, caption; facts as metadata."""
    found = data.load(root, download)
    _check(data, found)
    parts = {part: _prepared(data, found.parts[part]) for part in PARTS}
    facts = {
        "name": data.name,
        "classes": list(found.classes),
        "domains": list(found.domains),
        "images": {part: len(parts[part].labels) for part in PARTS},
        "shape": list(parts["train"].pixels.shape[1:]),
        "dtype": "uint8",
        "scale": data.scale,
        "mean": list(data.mean),
        "std": list(data.std),
        "source": data.source,
        "note": found.note,
        "checksum": checksum_of(parts),
    }
    write(outputs, parts, facts)


def write(outputs: Mapping[str, Path], parts: Mapping[str, Images], facts: Mapping[str, Any]) -> None:
    """Writes the prepared parts of a data set; see `read`."""
    for part in PARTS:
        write_table(outputs[part], _table(parts[part], facts["domains"]), dict(facts) | {"part": part})


def read(files: Mapping[str, Path]) -> Pool:
    """The whole data set from the files that `write` wrote."""
    facts = read_metadata(files["train"])
    tables = [pq.read_table(files[part], columns=["image", "label"]) for part in PARTS]
    pixels = [_pixels(table["image"], facts) for table in tables]
    labels = [table["label"].to_numpy().astype(np.int64) for table in tables]
    return Pool(Images(np.concatenate(pixels), np.concatenate(labels)), facts)


def read_labels(files: Mapping[str, Path]) -> tuple[Labels, dict[str, Any]]:
    """Labels and domains of the whole data set, and its facts, without the images."""
    facts = read_metadata(files["train"])
    columns = ["label", "domain"] if facts["domains"] else ["label"]
    # not read_table, which imports pandas: a partition would take twice as long
    tables = [pq.ParquetFile(files[part]).read(columns=columns).replace_schema_metadata() for part in PARTS]
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
        if parts[part].domains is not None:
            total.update(parts[part].domains.astype("<i8").tobytes())
    return total.hexdigest()


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


def _prepared(data: DataSet, images: Images) -> Images:
    from fedgrid.data.sources import pictures

    pixels = pictures.resized(images.pixels, data.side) if data.side else images.pixels
    if data.colour and pixels.shape[3] == 1:
        pixels = np.repeat(pixels, 3, axis=3)
    return Images(pixels, images.labels, images.domains, images.captions)


def _check(data: DataSet, found: Collection) -> None:
    """Raises UserError for labels and domains out of range, and for a copy of the original that is not the original."""
    for part in PARTS:
        images, where = found.parts[part], f"data '{data.name}': the {part} part"
        if len(images.pixels) != len(images.labels):
            raise UserError(f"{where} has {len(images.pixels)} images and {len(images.labels)} labels")
        _check_range(f"{where} has a label", images.labels, len(found.classes))
        if images.domains is not None:
            _check_range(f"{where} has a domain", images.domains, len(found.domains))
    if data.checksum and not found.note and checksum_of(found.parts) != data.checksum:
        raise UserError(f"data '{data.name}': the images are not those of the original data set")


def _check_range(what: str, numbers: np.ndarray, count: int) -> None:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
        raise UserError(f"{what} outside 0..{count - 1}")
