"""What a partition from a file outside the package dealt out, checked before anything is trained on it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.data.common.columns import numbers
from fedgrid.data.common.store import Labels
from fedgrid.partition.common.publish import COLUMNS
from fedgrid.partition.common.rows import EVERYONE, split_numbers


def flaw_of(table: Any, about: Any, pool: Labels) -> str:
    """What is wrong with the rows of a partition and with what it says of them; empty where nothing is."""
    if not isinstance(table, pa.Table) or table.column_names != [*COLUMNS]:
        return f"`split` has to return a table of the columns {', '.join(COLUMNS)}"
    if not isinstance(about, Mapping) or not {"clients", "words", "test"} <= {*about}:
        return "`about` has to say the number of clients, the words and the test"
    try:
        client, index, label = (numbers(table[name]) for name in ("client", "index", "label"))
        split = split_numbers(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        return f"`split` returns columns of other types ({error})"
    if len(client) and not EVERYONE <= client.min() <= client.max() < about["clients"]:
        return f"there are {about['clients']} clients, but images of client {_outside(client, about['clients'])}"
    if len(index) and not 0 <= index.min() <= index.max() < len(pool.labels):
        return f"there are {len(pool.labels):,} images, but an index of {_outside(index, len(pool.labels))}"
    if len(np.unique(index)) < len(index):
        return f"image {_repeated(index)} is dealt out twice"
    if (pool.labels[index] != label).any():
        return f"image {index[pool.labels[index] != label][0]} has another label than the data set says"
    return "a split is none of train, validation and test" if (split < 0).any() else ""


def _outside(values: np.ndarray, count: int) -> int:
    return int(values.max() if values.max() >= count else values.min())


def _repeated(index: np.ndarray) -> int:
    values, counts = np.unique(index, return_counts=True)
    return int(values[counts > 1][0])
