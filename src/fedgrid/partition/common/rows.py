"""The rows of a partition: which splits there are, whose the shared rows are, and the digest of them all."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.data.common.columns import numbers, texts

SPLITS = ("train", "validation", "test")
EVERYONE = -1
"The client of a test image that all clients share."
ROW = np.dtype([("client", "<i8"), ("split", "S10"), ("index", "<i8"), ("label", "<i8")])


def split_numbers(table: pa.Table) -> np.ndarray:
    """Positions in `SPLITS` of the rows' splits, [n]."""
    return numbers(pc.index_in(table["split"].cast(pa.string()), texts(SPLITS)))


def digest_of(table: pa.Table) -> str:
    """SHA-256 of the rows one after the other, whatever the encoding of the file.

    A row is its client (int64, little-endian), its split (UTF-8, filled with zero bytes to 10), its index and its label
    (int64 both).
    """
    rows = np.empty(len(table), ROW)
    for name in ("client", "index", "label"):
        rows[name] = numbers(table[name])
    rows["split"] = np.array(SPLITS, ROW["split"])[split_numbers(table)]
    return hashlib.sha256(rows.tobytes()).hexdigest()
