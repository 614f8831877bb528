"""PFLlib's folder: ``train/0.npz`` … and ``test/0.npz`` …, a client a file.

Each file holds one entry ``data``, a dictionary of images ``x`` and labels ``y`` that numpy has pickled. The pickle is
read as data (`pickled`); images are normalised floats with the channels first, and are matched with those of the data
set.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from fedgrid.errors import UserError
from fedgrid.partition.importing.pickled import Unsafe, arrays_of
from fedgrid.partition.importing.pixels import Constants, Shape, digests_of, laid_out, normalisation_of, pixels_of
from fedgrid.partition.importing.rows import ImportedRows, numbered, split_number

PARTS = ("train", "test")
MEMBER = "data.npy"
NUMBER_BYTES = 8
"Of the largest number that images may be made of."
SPARE_BYTES = 2**20
"That a file may have beside its images."
AT_ONCE = 4096
"Images whose floats stand in memory twice."


def client_files(folder: Path) -> dict[str, dict[str, Path]]:
    """By part and by the client's name, the files; UserError for a folder that is laid out otherwise."""
    files: dict[str, dict[str, Path]] = {part: {} for part in PARTS}
    for part in PARTS:
        for file in sorted((folder / part).glob("*.npz")):
            if not re.fullmatch(r"\d{1,9}", file.stem):
                raise UserError(f"{file}: the name has to be the client's number, as in {part}/0.npz")
            if not file.is_file():
                raise UserError(f"{file} is not a regular file")
            files[part][file.stem] = file
    if not files["train"]:
        raise UserError(f"{folder}: has no client's file in train, as in train/0.npz")
    return files


@dataclass(frozen=True)
class ExpectedImages:
    """What the files can hold at most: images of this shape, no more of them in one file than the data set has."""

    shape: Shape
    number: int

    @property
    def most_bytes(self) -> int:
        """Bytes that no file exceeds, unpacked."""
        return self.number * (prod(self.shape) + 1) * NUMBER_BYTES + SPARE_BYTES


def counts(folder: Path, expected: ExpectedImages) -> tuple[int, dict[str, int]]:
    """Number of clients, and about how many images each part has: from the sizes of the files, unpacked.

    The first file is read whole; UserError where it holds no images of the data set's shape.
    """
    files = client_files(folder)
    first = next(iter(files["train"].values()))
    images, _ = client_images(first, expected)
    laid_out(images, expected.shape, str(first))
    each = prod(expected.shape) * images.dtype.itemsize + 8
    sizes = {part: sum(_size(file, expected) // each for file in files[part].values()) for part in PARTS}
    return len({*files["train"], *files["test"]}), sizes


def read_clients(folder: Path, expected: ExpectedImages, known: Mapping[str, object], own: Constants) -> ImportedRows:
    """The rows of all clients, whose images are named by the digests of their pixels.

    `known` has the digests of the data set's images, `own` are its constants. Raises UserError for a file that holds
    anything else than images of the data set's shape, and where no usual normalisation makes any of the first ones an
    image of the data set.
    """
    files = client_files(folder)
    names, positions = numbered([*files["train"], *files["test"]])
    constants: Constants | None = None
    client, split, image, label = [], [], [], []
    for part, name, file in ((p, n, file) for p in PARTS for n, file in files[p].items()):
        images, labels = client_images(file, expected)
        images = laid_out(images, expected.shape, str(file))
        if constants is None and len(images):
            constants = normalisation_of(images, known.keys(), own)
            if constants is None:
                raise UserError(
                    f"{file}: none of its first images is one of the data set, whatever usual normalisation is undone; "
                    "the data set has to be of the same images, in their original size and not a lossy copy"
                )
        for start in range(0, len(images), AT_ONCE):
            pixels = pixels_of(images[start : start + AT_ONCE], constants) if constants else None
            if pixels is None:
                raise UserError(f"{file}: its images are normalised otherwise than those of the first client")
            image += digests_of(pixels)
        client.append(np.full(len(labels), positions[name], np.int64))
        split.append(np.full(len(labels), split_number(part, str(file)), np.int64))
        label.append(labels)
    clients, splits, labels = (np.concatenate(parts) for parts in (client, split, label))
    return ImportedRows(names, clients, splits, "digest", np.array(image, object), labels)


def client_images(file: Path, expected: ExpectedImages) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels (int64 [n]) of one client; UserError for any other content, which is never run."""
    arrays = _arrays(file, expected)
    if not {"x", "y"} <= {*arrays}:
        raise UserError(f"{file}: has {', '.join(sorted(arrays))[:80] or 'nothing'} in place of x and y")
    images, labels = arrays["x"], arrays["y"]
    if labels.dtype.kind == "f" and np.array_equal(labels, np.rint(labels)):
        labels = labels.astype(np.int64)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise UserError(f"{file}: y has to be whole numbers, one for each image")
    if images.ndim < 2 or len(images) != len(labels):
        number = len(images) if images.ndim else 0
        raise UserError(f"{file}: has {number:,} images and {len(labels):,} labels")
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise UserError(f"{file}: an image has a value that is no finite number")
    return images, labels.astype(np.int64)


def _size(file: Path, expected: ExpectedImages) -> int:
    with _member(file, expected) as (_, size):
        return size


def _arrays(file: Path, expected: ExpectedImages) -> dict[str, np.ndarray]:
    with _member(file, expected) as (member, _):
        try:
            version = npy.read_magic(member)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(member)
            content = member.read()
        except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise UserError(f"{file}: damaged ({' '.join(str(error).split())[:120]})") from error
    if shape != () or not dtype.hasobject:
        raise UserError(f"{file}: 'data' has to be a dictionary of x and y, not an array of the shape {shape}")
    try:
        return arrays_of(content)
    except Unsafe as error:
        raise UserError(f"{file}: refused, for {error}; only arrays of numbers x and y are read") from error


@contextmanager
def _member(file: Path, expected: ExpectedImages) -> Iterator[tuple[IO[bytes], int]]:
    """The one entry of a client's file, opened, and its unpacked size; UserError for any other file."""
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
            info = archive.getinfo(MEMBER)
            if info.file_size > expected.most_bytes:
                limit = f"{expected.number:,} images of the data set"
                raise UserError(f"{file}: would unpack to {info.file_size / 1e6:,.0f} MB, more than {limit} take")
            member = stack.enter_context(archive.open(info))
        except KeyError as error:
            raise UserError(f"{file}: has no entry 'data', as PFLlib's files have") from error
        except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
            raise UserError(f"{file}: cannot be read as npz ({' '.join(str(error).split())[:120]})") from error
        yield member, info.file_size
