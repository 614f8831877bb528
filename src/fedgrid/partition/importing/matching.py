"""The rows of a foreign partition as images of a data set, and what did not match."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.data.common.store import Labels, read
from fedgrid.errors import UserError, nearest
from fedgrid.partition.base import rows_as_table
from fedgrid.partition.common.rows import EVERYONE
from fedgrid.partition.importing.forms import Form
from fedgrid.partition.importing.pfllib import ExpectedImages, read_clients
from fedgrid.partition.importing.pixels import digests_of
from fedgrid.partition.importing.report import report_of
from fedgrid.partition.importing.rows import TEST, ImportedRows, listed

UNMATCHED = -1
"In place of the position of an image that the data set does not have."
SHOWN = 3
"Images named in a sentence."


@dataclass(frozen=True, eq=False)
class ImagePool(Labels):
    """What a foreign partition is matched with: labels, and on demand the images and the files they came from."""

    __hash__, __eq__ = object.__hash__, object.__eq__  # arrays have neither; the same pool is the same object

    files: dict[str, Path] = field(default_factory=dict)
    "By part, the images in the store."
    names: Callable[[], Sequence[str]] = tuple
    "Paths of the user's pictures relative to their folder, in the order of the images; none of other data sets."
    file_digests: Callable[[], Sequence[str]] = tuple
    "SHA-256 of these files."


@functools.lru_cache(maxsize=1)  # what a partition holds and what it says of itself are asked for one after the other
def matched(form: Form, digest: str, pool: ImagePool, drop: bool) -> tuple[pa.Table, ImportedRows, dict[str, Any]]:
    """A foreign partition as images of a pool: the published table, the file's own rows, and a report (`report_of`).

    `digest` is that of the form's content. Images that the pool lacks are left out where they are to `drop`, else they
    are an error. Raises UserError for a row number beyond the pool, for other labels than the pool's, and where no
    image matches.
    """
    rows = _rows(form, pool)
    image = _images(rows, pool, str(form.path))
    missing = np.flatnonzero(image == UNMATCHED)
    _check_missing(rows, missing, str(form.path), drop)
    kept = image != UNMATCHED
    _check_labels(rows, image, pool, str(form.path))
    client, split, image = rows.client[kept], rows.split[kept], image[kept]
    if not (rows.has_own_tests or rows.shared.any()):
        client, split, image = _with_shared(client, split, image, pool, str(form.path))
    everyone_last = np.where(client == EVERYONE, len(rows.clients), client)
    order = np.lexsort((image, split, everyone_last))
    table = rows_as_table(pool, client[order], image[order], split[order])
    return table, rows, report_of(table, rows.clients, len(missing), pool)


def _rows(form: Form, pool: ImagePool) -> ImportedRows:
    if form.kind != "PFLlib":
        return form.rows
    images = read(pool.files)
    shape = tuple(images.facts["shape"])
    known = dict.fromkeys(digests_of(images.images.pixels))
    own = tuple(images.facts["mean"]), tuple(images.facts["std"])
    return read_clients(form.path, ExpectedImages((shape[0], shape[1], shape[2]), len(pool.labels)), known, own)


def _images(rows: ImportedRows, pool: ImagePool, where: str) -> np.ndarray:
    """The position in the pool of every row's image, int64 [n]; `UNMATCHED` where it has none."""
    if rows.naming == "index":
        if (highest := int(rows.image.max())) >= len(pool.labels):
            raise UserError(f"{where}: names image {highest:,}, and the data set has {len(pool.labels):,}, from 0")
        return rows.image
    if rows.naming == "file":
        return _by_name(rows, pool, where)
    return _by_digest(rows, pool)


def _by_name(rows: ImportedRows, pool: ImagePool, where: str) -> np.ndarray:
    names = pool.names()
    if not names:
        raise UserError(f"{where}: names images by file, which only a folder of your own pictures has; use row numbers")
    position = {name: number for number, name in enumerate(names)}
    wanted = [str(name).replace("\\", "/").removeprefix("./") for name in rows.image]
    images = np.array([position.get(name, UNMATCHED) for name in wanted], np.int64)
    if (images == UNMATCHED).all():
        raise UserError(
            f"{where}: none of its files is in the data set; names are relative to its folder, as in '{names[0]}' "
            f"('{wanted[0][:80]}': {nearest(wanted[0], names)[:200]})"
        )
    return images


def _by_digest(rows: ImportedRows, pool: ImagePool) -> np.ndarray:
    """Images by SHA-256 of their pixels, or of their files; equal images are dealt out one after the other."""
    positions: dict[str, list[int]] = {}
    for digests in (digests_of(read(pool.files).images.pixels), pool.file_digests()):
        for number, digest in enumerate(digests):
            positions.setdefault(digest, []).append(number)
    dealt: dict[str, set[int]] = {}
    images = np.full(len(rows.image), UNMATCHED)
    for row, digest in enumerate(rows.image):
        if candidates := positions.get(digest):
            label = None if rows.label is None else rows.label[row]
            images[row] = _chosen(candidates, dealt.setdefault(digest, set()), label, pool.labels)
    return images


def _chosen(candidates: list[int], dealt: set[int], label: int | None, labels: np.ndarray) -> int:
    """Of equal images, the first of the label that was not dealt out yet; else the last resort is the first one."""
    fitting = [number for number in candidates if label is None or labels[number] == label] or candidates
    chosen = next((number for number in fitting if number not in dealt), fitting[0])
    dealt.add(chosen)
    return chosen


def _check_missing(rows: ImportedRows, missing: np.ndarray, where: str, drop: bool) -> None:
    if not len(missing) or (drop and len(missing) < len(rows.image)):
        return
    shown = listed([_short(rows.image[row]) for row in missing], SHOWN)
    mend = "--unmatched drop, or unmatched: drop in the study, leaves them out"
    if len(missing) == len(rows.image):
        mend = "choose the data set that it was made for"
    raise UserError(
        f"{where}: {len(missing):,} of its {len(rows.image):,} images are not in the data set ({shown}); {mend}"
    )


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) < 60 else f"{text[:16]}…"


def _check_labels(rows: ImportedRows, image: np.ndarray, pool: ImagePool, where: str) -> None:
    if rows.label is None:
        return
    known = image != UNMATCHED
    other = np.flatnonzero(known & (pool.labels[np.where(known, image, 0)] != rows.label))
    if len(other):
        row = other[0]
        raise UserError(
            f"{where}: {len(other):,} of its {len(image):,} images have another label than in the data set (image "
            f"{_short(rows.image[row])}: {rows.label[row]}, in the data set {pool.labels[image[row]]}); it was made "
            "for other images, or numbers the classes otherwise"
        )


def _with_shared(
    client: np.ndarray, split: np.ndarray, image: np.ndarray, pool: ImagePool, where: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows, and those of the test part, which all clients share."""
    shared = np.arange(pool.train, len(pool.labels))
    check_without_tests(int(image.max()), pool.train, len(shared), where)
    more = np.full_like(shared, EVERYONE), np.full_like(shared, TEST), shared
    client, split, image = (np.concatenate(pair) for pair in zip((client, split, image), more, strict=True))
    return client, split, image


def check_without_tests(highest: int, train: int, test: int, where: str) -> None:
    """Raises UserError where rows without test images leave nothing to be tested on, or train on test images."""
    if not test:
        raise UserError(
            f"{where}: has no test images, and the data set has no test part; give some rows the split test"
        )
    if highest >= train:
        raise UserError(
            f"{where}: has no test images, so all clients are tested on the data set's test part, but image "
            f"{highest:,} is of that part (the first {train:,} are for training); give some rows the split test"
        )
