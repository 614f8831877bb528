"""A small data set in a store, and partitions of it as other programs lay them out."""

from pathlib import Path

import numpy as np

from fedgrid.data.common.images import Images
from fedgrid.data.common.store import read_labels, write
from fedgrid.partition.importing.matching import ImagePool

SHAPE = (4, 4, 1)
TRAIN, TEST = 30, 10
CLASSES = 3
CONSTANTS = (0.5, 0.5)
"PFLlib's mean and standard deviation."


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


def write_pfllib(folder: Path, pixels, labels, clients, share=0.75, constants=CONSTANTS):
    """Laid out as PFLlib's generator does: normalised floats, channels first, a dictionary in each client's file.

    `clients` lists the images of each; returns by part and client the images that its file has, in order.
    """
    mean, std = (np.float32(value) for value in constants)
    images = ((pixels.astype(np.float32) / np.float32(255) - mean) / std).transpose(0, 3, 1, 2)
    held = {}
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
    for client, index in enumerate(clients):
        cut = int(share * len(index))
        for part, rows in (("train", index[:cut]), ("test", index[cut:])):
            held[part, client] = rows
            with open(folder / part / f"{client}.npz", "wb") as file:
                np.savez_compressed(file, data={"x": images[rows], "y": labels[rows]})
    return held
