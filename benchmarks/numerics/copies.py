"""Small data sets as Parquet files and as pictures in folders: copies of named data sets, and a user's own."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from benchmarks.numerics.originals import encoded, noise, noise_images, put
from fedgrid.data.common.images import PARTS, Images

SIZES = {"train": 30, "test": 12}
"Images of each part of a copy."
EQUAL = 4
"So many images of each part, the first ones, are equal, though their labels may differ."
WORDS = ("a small bird", "a red\tbird", "", "Vogel, grün\nzweiter Satz")


@dataclass(frozen=True)
class Copy:
    """The form of a copy of a data set."""

    encoding: str
    shape: tuple[int, int, int]
    classes: Sequence[str]
    domains: Sequence[str] = ()
    captions: Sequence[str] = ()


DIGITS = tuple("0123456789")
COPIES: Mapping[str, Copy] = {
    "mnist": Copy("raw", (28, 28, 1), DIGITS),
    "fmnist": Copy("raw", (28, 28, 1), ("T-shirt/top", "Trouser", "Pullover", "Dress")),
    "emnist": Copy("png", (28, 28, 1), tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt")),
    "usps": Copy("raw", (16, 16, 1), DIGITS),
    "cifar10": Copy("png", (32, 32, 3), DIGITS),
    "cifar100": Copy("jpeg", (32, 32, 3), ("apple", "bear", "chair")),
    "svhn": Copy("png", (32, 32, 3), DIGITS),
    "synth": Copy("raw", (32, 32, 3), DIGITS),
    "mnistm": Copy("jpeg", (32, 32, 3), DIGITS),
    "office10": Copy("jpeg", (96, 96, 3), ("backpack", "bike"), ("webcam", "elsewhere", "Amazon", "DSLR", "abroad")),
    "domainnet": Copy(
        "png",
        (64, 64, 3),
        ("bird", "feather", "headphones", "ice_cream", "teapot", "tiger", "whale", "windmill", "wine_glass", "zebra"),
        ("sketch", "real", "Clipart"),
    ),
    "cub200": Copy("jpeg", (64, 64, 3), ("Black_footed_Albatross", "Laysan_Albatross"), captions=WORDS),
    "marks": Copy("png", (6, 5, 1), ("one", "two"), ("north", "south", "EAST", "west")),
}
"By data set; `marks` is a user's own."
OWN = {
    "raw": Copy("raw", (5, 4, 3), ("no", "yes", "perhaps"), ("b", "a")),
    "png": Copy("png", (5, 4, 1), ("no", "yes")),
    "jpeg": Copy("jpeg", (9, 6, 3), ("no", "yes"), captions=WORDS),
}
ALONE = {"alone": Copy("raw", (5, 4, 3), ("no", "yes", "perhaps"), ("b", "a"))}
"Tables of a user's own, of two files, and one of a file alone."
KINDS = {
    "grey.png": "L",
    "alpha.png": "RGBA",
    "palette.png": "P",
    "grey with alpha.PNG": "LA",
    "photograph.jpg": "RGB",
    "print.jpeg": "CMYK",
    "old.bmp": "RGB",
    "new.webp": "RGB",
}
"Files of pictures of many kinds, and Pillow's name of the kind."


def write_copies(root: Path, copies: Mapping[str, Copy], sizes: Mapping[str, int]) -> dict[str, dict[str, Images]]:
    """Writes ``<name>/train.parquet`` and ``<name>/test.parquet`` for each copy; returns their images by name and part.

    `sizes` are the numbers of images of the parts.
    """
    written: dict[str, dict[str, Images]] = {name: {} for name in copies}
    for seed, (name, copy) in enumerate(copies.items()):
        for part, size in sizes.items():
            written[name][part] = images_of(copy, size, 2 * seed + PARTS.index(part))
            write_table(root / name / f"{part}.parquet", written[name][part], copy)
    return written


def images_of(copy: Copy, size: int, seed: int) -> Images:
    """Random images in the form of a copy, each class and domain and caption about as often as the others."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(size) % len(copy.classes))
    domains = random.permutation(np.arange(size) % len(copy.domains)) if copy.domains else None
    captions = [copy.captions[row % len(copy.captions)] for row in range(size)] if copy.captions else None
    pixels = noise_images((size, *copy.shape), seed)
    pixels[:EQUAL] = pixels[0]
    return Images(pixels, labels, domains, captions)


def write_table(file: Path, images: Images, copy: Copy) -> None:
    """Writes one part of a copy."""
    rows = [_row(pixels, copy.encoding) for pixels in images.pixels]
    columns: dict[str, pa.Array] = {}
    if images.domains is not None:
        columns["domain"] = pa.array([copy.domains[place] for place in images.domains])
    if images.captions is not None:
        columns["caption"] = pa.array(images.captions)
    sides = dict(zip(("height", "width", "channels"), map(str, copy.shape), strict=True))
    facts = {"encoding": copy.encoding, "classes": json.dumps(list(copy.classes)), "note": "Made of noise."} | sides
    write_rows(file, rows, images.labels, facts, columns)


def write_rows(
    file: Path,
    rows: Sequence[bytes],
    labels: Sequence[int] | np.ndarray,
    facts: Mapping[str, str],
    columns: Mapping[str, pa.Array | Sequence[str]] = {},
) -> None:
    """Writes images as a file holds them, their labels, further columns, and facts as metadata."""
    table = pa.table({"image": pa.array(rows, pa.binary()), "label": pa.array(labels, pa.int16()), **columns})
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(dict(facts)), file)


def _row(pixels: np.ndarray, encoding: str) -> bytes:
    if encoding == "raw":
        return pixels.tobytes()
    return encoded(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels, encoding)


def write_pictures(root: Path) -> None:
    """Writes a user's own pictures in three folders.

    One has pictures of many kinds and sizes, one has parts and domains, and one has grey pictures of 16 bits.
    """
    for number, (name, kind) in enumerate(KINDS.items()):
        for label in ("cat", "dog"):
            file = root / "kinds" / label / name
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noise(number + 50 * (label == "dog"))).convert(kind).save(file)
    names = ["train/photo/cat/2.png", "train/photo/cat/10.png", "train/sketch/ant/1.png", "train/sketch/cat/1.png"]
    names += ["train/photo/ant/b.png", "train/Zoo/ant/a.png", "test/sketch/ant/1.png", "test/photo/cat/1.png"]
    for number, name in enumerate(names):
        put(root / "parts" / name, encoded(noise_images((7, 5, 3), number)))
    deep = np.random.default_rng(0).integers(0, 2**16, (6, 7, 5)).astype(np.uint16)
    for number, pixels in enumerate(deep):
        put(root / "deep" / f"class {number % 2}" / f"{number}.png", encoded(pixels))
