"""Partitions in files, published by fedgrid and of other programs in every form, and the images that they name."""

import csv
import hashlib
import io
import json
import pickle
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.numerics.copies import Copy, write_copies
from benchmarks.numerics.originals import encoded, noise_images, put
from fedgrid.data.common.images import PARTS, Images
from fedgrid.data.common.store import Labels, checksum_of
from fedgrid.files import write_table as write_sealed
from fedgrid.partition.base import rows_as_table
from fedgrid.partition.common.rows import EVERYONE, SPLITS, digest_of
from fedgrid.partition.importing.pixels import USUAL, Constants

TRAIN, TEST = 40, 16
SIZES = {"train": TRAIN, "test": TEST}
TOYS = {
    "grey": Copy("raw", (5, 4, 1), ("no", "yes", "perhaps"), ("west", "east")),
    "colour": Copy("raw", (5, 4, 3), ("no", "yes", "perhaps")),
}
"Data sets whose images the partitions name."
OF_DATA: Constants = ((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
"SVHN's own constants, none of the usual ones."
HALF = (0.5,), (0.5,)
Row = tuple[str, str, int]
"Client, split and image."
ROWS: Sequence[Row] = (
    ("b10", "train", 3),
    ("b9", "val", 7),
    ("b9", "test", 41),
    ("b10", "test", 4),
    ("b9", "train", 0),
    ("a", "valid", 12),
    ("b10", "train", 2),
    ("a", "Train", 20),
    ("a", "test", 55),
    ("b10", "train", 3),
    ("a", "test", 20),
)
"With names whose order is not that of the alphabet, a row that comes twice, and an image in two splits."
SHARED: Sequence[Row] = (
    ("7", "train", 5),
    ("12", "train", 9),
    ("-1", "test", 44),
    ("7", "train", 1),
    ("-1", "test", 2),
)
"Of clients that share test images."
UNTESTED: Sequence[Row] = (("1", "train", 30), ("0", "train", 39), ("1", "validation", 8), ("0", "train", 10))
"Of clients without test images."


def write_partitions(root: Path, svhn: Images) -> None:
    """Writes the toys, and the partitions of their images and of the copy of SVHN, whose training images are `svhn`."""
    toys = write_copies(root / "toys", TOYS, SIZES)
    grey, colour = (_joined(toys[name]) for name in TOYS)
    _write_tables(root / "tables", grey)
    _write_dictionaries(root / "dictionaries")
    _write_published(root / "published", toys["grey"])
    _write_named(root / "named")
    _write_pfllib_folders(root / "pfllib", grey, colour)
    write_pfllib(root / "pfllib" / "of SVHN", svhn.pixels, svhn.labels, _dealt(len(svhn.labels), 3), 0.7, OF_DATA)


def _joined(parts: Mapping[str, Images]) -> Images:
    pixels, labels = (np.concatenate([getattr(parts[p], name) for p in PARTS]) for name in ("pixels", "labels"))
    return Images(pixels, labels)


def _dealt(images: int, clients: int) -> list[np.ndarray]:
    """Rows of images at random for each client."""
    return np.array_split(np.random.default_rng(5).permutation(images), clients)


def _write_tables(folder: Path, images: Images) -> None:
    """Tables of row numbers and of digests of pixels, with and without labels and test images."""
    folder.mkdir(parents=True)
    for name, rows in {"own tests": ROWS, "shared tests": SHARED, "untested": UNTESTED}.items():
        labels = [int(images.labels[row[2]]) for row in rows] if name == "own tests" else None
        _write_csv(folder / f"{name}.csv", "index", rows, [row[2] for row in rows], labels)
    for seed in (0, 1):
        rows = [(str(number % 3), "train", (number + seed) * 7 % TRAIN) for number in range(12)]
        _write_csv(folder / f"seed {seed}.csv", "index", rows, [row[2] for row in rows])
    digests = [hashlib.sha256(images.pixels[row[2]].tobytes()).hexdigest() for row in (*ROWS, *ROWS)]
    digests = [digest.upper() if number % 2 else digest for number, digest in enumerate(digests)]
    _write_csv(folder / "digests.csv", "digest", (*ROWS, *ROWS), digests)
    unknown = [digest if number % 4 else "0" * 64 for number, digest in enumerate(digests)]
    labels = [int(images.labels[row[2]]) for row in (*ROWS, *ROWS)]
    _write_csv(folder / "unknown digests.csv", "digest", (*ROWS, *ROWS), unknown, labels)
    clients = pa.array([2.0, 0.0, 1.0, -1.0, 0.0, 10.0, 2.0])
    splits = pa.array(["train", "train", "val", "test", "val", "train", "valid"]).dictionary_encode()
    index = pa.array([4, 6, 8, 50, 39, 11, 0], pa.int8())
    pq.write_table(pa.table({"client": clients, "split": splits, "index": index}), folder / "numbers.parquet")


def _write_csv(
    file: Path, naming: str, rows: Iterable[Row], images: Iterable[object], labels: Iterable[int] | None = None
) -> None:
    columns: list[Iterable[object]] = [[row[0] for row in rows], [row[1] for row in rows], images]
    columns += [labels] if labels else []
    with open(file, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["client", "split", naming, *(["label"] if labels else [])])
        writer.writerows(zip(*columns, strict=True))


def _write_dictionaries(folder: Path) -> None:
    """JSON files of clients and row numbers, in each form."""
    split = [{"train": [31, 2], "val": [12], "test": [45, 1]}, {"train": [5], "test": [50]}]
    contents: dict[str, Any] = {
        "mapping": {"10": [1, 2], "9": [5, 3], "north": []},
        "list": [[1, 2], [], [5, 39]],
        "splits": {"9": split[0], "10": split[1], "x1": {"test": [46], "validation": [6]}},
        "fl-bench": {"separation": {"train": [0, 1]}, "data_indices": split},
    }
    for name, content in contents.items():
        put(folder / f"{name}.json", json.dumps(content).encode())


def _write_published(folder: Path, parts: Mapping[str, Images]) -> None:
    """Partitions as fedgrid publishes them: with own, shared and weighted test images, with validation, by seed."""
    images = _joined(parts)
    domains = np.concatenate([parts[part].domains for part in PARTS if parts[part].domains is not None])
    copy = TOYS["grey"]
    names = ("east", "west")  # a table's domains are in the order of their names
    positions = np.array([names.index(copy.domains[number]) for number in domains])
    known = {part: Images(parts[part].pixels, parts[part].labels, rows) for part, rows in _parted(positions).items()}
    pool = Labels(images.labels, TRAIN, len(copy.classes), positions, names, checksum_of(known))
    for seed in (0, 1):
        _publish(folder / "own" / f"{seed}.parquet", pool, _own_rows(seed), "own")
    for test in ("official", "weighted"):
        shared = [(EVERYONE, 2, index) for index in range(TRAIN, TRAIN + TEST)]
        _publish(folder / f"{test}.parquet", pool, [row for row in _own_rows(2) if row[1] == 0] + shared, test)
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.parquet")}
    put(folder / "SHA256SUMS", "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode())


def _parted(values: np.ndarray) -> dict[str, np.ndarray]:
    return {"train": values[:TRAIN], "test": values[TRAIN:]}


def _own_rows(seed: int) -> list[tuple[int, int, int]]:
    """Client, position of the split and image of a third of the training images and more."""
    random = np.random.default_rng(seed)
    return [(client, split, int(random.integers(TRAIN))) for client in range(3) for split in (0, 0, 0, 1, 2)]


def _publish(file: Path, pool: Labels, rows: Sequence[tuple[int, int, int]], test: str) -> None:
    client, split, index = np.array(rows).T
    table = rows_as_table(pool, client, index, split)
    facts = {"clients": 3, "words": f"{len(rows)} rows", "data": "toy", "data_checksum": pool.checksum, "test": test}
    facts |= {"classes": list(TOYS["grey"].classes), "domains": list(pool.domain_names), "digest": digest_of(table)}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(file, table, facts | {"spec": {"seed": 0}})


def _write_named(folder: Path) -> None:
    """A folder of pictures, and tables that name them by their files and by the digests of these."""
    files = [f"{part}/{label}/{number}.png" for part in PARTS for label in ("cat", "ant") for number in (1, 2, 10)]
    contents = [encoded(noise_images((6, 5, 3), number)) for number in range(len(files))]
    for file, content in zip(files, contents, strict=True):
        put(folder / "pictures" / file, content)
    rows = [(("x", "y")[number % 2], SPLITS[number % 3], number) for number in range(len(files))]
    paths = [("./" + file, file.replace("/", "\\"), file)[number % 3] for number, file in enumerate(files)]
    _write_csv(folder / "files.csv", "file", rows, [*paths[:-1], "train/cat/3.png"])
    table = {"client": [row[0] for row in rows], "split": [row[1] for row in rows], "file": files}
    pq.write_table(pa.table(table), folder / "files.parquet")
    _write_csv(folder / "digests.csv", "digest", rows, [hashlib.sha256(content).hexdigest() for content in contents])


def _write_pfllib_folders(folder: Path, grey: Images, colour: Images) -> None:
    """PFLlib's folders with each usual normalisation, and with images laid out and rounded otherwise."""
    for number, constants in enumerate(USUAL):
        images = grey if len(constants[0]) == 1 else colour
        dealt = _dealt(len(images.labels), 3 + number % 2)
        write_pfllib(folder / f"normalised {number}", images.pixels, images.labels, dealt, constants=constants)
    first = np.arange(12)
    pixels, labels = grey.pixels[first], grey.labels[first]
    _write_old_client(folder / "as they are" / "train" / "0.npz", pixels, labels.astype(np.float64))
    _write_client(folder / "as they are" / "train" / "10.npz", pixels[:3, :, :, 0], labels[:3].astype(np.uint8))
    _write_client(folder / "as they are" / "train" / "9.npz", np.asfortranarray(pixels[5:]), labels[5:].astype(">i4"))
    for name, off in {"nearly": 0.018, "too far": 0.025}.items():  # in units of a pixel
        floats = normalised(pixels.astype(np.float64) + off, HALF)
        _write_client(folder / name / "train" / "0.npz", floats, labels)
    unknown = normalised(np.concatenate([pixels, noise_images((3, *pixels.shape[1:]), 99)]), HALF)
    _write_client(folder / "unknown" / "train" / "0.npz", unknown, np.concatenate([labels, [0, 1, 2]]))
    _write_client(folder / "unknown" / "test" / "1.npz", normalised(grey.pixels[50:], HALF), grey.labels[50:])


def write_pfllib(
    folder: Path,
    pixels: np.ndarray,
    labels: np.ndarray,
    clients: Sequence[np.ndarray],
    share: float = 0.75,
    constants: Constants = HALF,
) -> dict[tuple[str, int], np.ndarray]:
    """Laid out as PFLlib's generator does: normalised floats, channels first, a dictionary in each client's file.

    `clients` lists the images of each; returns by part and client the images that its file has, in order.
    """
    images = normalised(pixels, constants).transpose(0, 3, 1, 2)
    held = {}
    for client, index in enumerate(clients):
        cut = int(share * len(index))
        for part, rows in (("train", index[:cut]), ("test", index[cut:])):
            held[part, client] = rows
            _write_client(folder / part / f"{client}.npz", images[rows], labels[rows])
    return held


def normalised(pixels: np.ndarray, constants: Constants) -> np.ndarray:
    """Pixels [n, height, width, channels] in 32 bits as a program of others normalises them."""
    mean, std = (np.asarray(values, np.float32) for values in constants)
    scaled: np.ndarray = ((pixels.astype(np.float32) / np.float32(255)) - mean) / std
    return scaled


def _write_client(file: Path, images: np.ndarray, labels: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as stream:
        np.savez_compressed(stream, data={"x": images, "y": labels})


def _write_old_client(file: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """The same as numpy wrote it before version 2."""
    entry = np.empty((), object)
    entry[()] = {"x": images, "y": labels}
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": ()})
    content = pickle.dumps(entry, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data.npy", header.getvalue() + content)
