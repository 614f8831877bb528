"""A small data set in a store, with which partitions of other programs are matched."""

from pathlib import Path

import numpy as np

from fedgrid.data.common.images import Images
from fedgrid.data.common.store import read_labels, write
from fedgrid.partition.importing.matching import ImagePool

SHAPE = (4, 4, 1)
TRAIN, TEST = 30, 10
CLASSES = 3


def pixels_and_labels(shape=SHAPE, number=TRAIN + TEST, seed=0):
    """Random images uint8 [n, height, width, channels] and labels int64 [n]."""
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (number, *shape), np.uint8), np.arange(number) % CLASSES


def pool_in(folder: Path, pixels, labels, train=TRAIN, **more) -> ImagePool:
    """The images in Parquet files, as an imported partition is matched with them."""
    files = {part: folder / f"{part}.parquet" for part in ("train", "test")}
    parts = {"train": Images(pixels[:train], labels[:train]), "test": Images(pixels[train:], labels[train:])}
    facts = {"classes": list("abcdefghij"[: int(labels.max()) + 1]), "domains": [], "checksum": "c", "name": "toy"}
    facts |= {"images": {"train": train, "test": len(labels) - train}, "shape": list(pixels.shape[1:])}
    write(files, parts, facts | {"dtype": "uint8", "mean": [0.5], "std": [0.5]})
    pool, _ = read_labels(files)
    names = ("labels", "train", "classes", "domains", "domain_names", "checksum", "modality", "modalities")
    return ImagePool(**{name: getattr(pool, name) for name in names}, files=files, **more)
