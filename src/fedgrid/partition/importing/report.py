"""What there is to say of an imported partition: what did not match, what comes twice, which clients lack images."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.data.common.columns import numbers
from fedgrid.data.common.store import Labels
from fedgrid.partition.common.rows import EVERYONE, split_numbers
from fedgrid.partition.importing.rows import TEST, listed

SHOWN = 10
"Clients that a line names."
COUNTED = {
    "missing": (
        "row is left out: its image is not in the data set",
        "rows are left out: the data set lacks their images",
    ),
    "repeated": ("row names an image that its client has already", "rows name an image that their client has already"),
    "several_clients": ("image is held by several clients", "images are held by several clients"),
    "train_and_test": (
        "image is in the training and the test images of one client",
        "images are in the training and the test images of one client",
    ),
    "unused": ("image of the data set is held by no client", "images of the data set are held by no client"),
}
"Number of a report → what it counts, of one and of several."
WITHOUT = {
    "without_training": ("client has no training images", "clients have no training images"),
    "without_test": ("client has no test images and no score", "clients have no test images and no score"),
}
"Clients of a report → what they lack, one and several."


def report_of(table: pa.Table, clients: Sequence[str], missing: int, pool: Labels) -> dict[str, Any]:
    """Plain numbers and lists on the rows of a partition whose clients had these names.

    missing             rows of images that the data set lacks, which are left out
    repeated            rows of an image that the same client has already, for the same split
    several_clients     images of several clients
    train_and_test      images that a client both trains on and is tested on
    without_training    clients without training images, by number
    without_test        clients without test images, by number, where clients have test images of their own
    unused              images that no client has
    names               names of the clients in the file by number; empty where they are these numbers
    """
    client, image, split = numbers(table["client"]), numbers(table["index"]), split_numbers(table)
    own = client != EVERYONE
    training, testing = own & (split != TEST), split == TEST
    held = np.unique(np.stack([client, image], axis=1)[own], axis=0)
    shared = bool((~own).any())
    in_both = np.intersect1d(_pairs(client, image, training), _pairs(client, image, testing & own))
    return {
        "missing": missing,
        "repeated": len(table) - len(np.unique(np.stack([client, image, split], axis=1), axis=0)),
        "several_clients": int((np.unique(held[:, 1], return_counts=True)[1] > 1).sum()),
        "train_and_test": len(in_both) + (len(np.intersect1d(image[training], image[~own])) if shared else 0),
        "without_training": _without(client[training], len(clients)),
        "without_test": [] if shared else _without(client[testing], len(clients)),
        "unused": len(pool.labels) - len(np.unique(image)),
        "names": [] if list(clients) == [str(number) for number in range(len(clients))] else list(clients),
    }


def lines_of(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as a person reads it: a line for each thing that is not as one would expect."""
    for name, (one, several) in COUNTED.items():
        if number := report[name]:
            yield f"{number:,} {one if number == 1 else several}"
    for name, (one, several) in WITHOUT.items():
        if clients := report[name]:
            yield f"{len(clients):,} {one if len(clients) == 1 else several}: {listed(clients, SHOWN)}"
    if report["names"]:
        named = listed([f"{number} is '{name}'" for number, name in enumerate(report["names"])], SHOWN)
        yield f"clients are numbered in the order of their names: {named}"


def _pairs(client: np.ndarray, image: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Client and image of some rows as one number each, [n]."""
    pairs: np.ndarray = client[chosen].astype(np.int64) * (int(image.max(initial=0)) + 1) + image[chosen]
    return pairs


def _without(client: np.ndarray, clients: int) -> list[int]:
    counts: list[int] = np.flatnonzero(np.bincount(client, minlength=clients) == 0).tolist()
    return counts
