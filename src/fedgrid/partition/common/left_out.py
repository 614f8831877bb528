"""How many images no client holds where a partition gives equally many of each domain."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.data.common.store import Labels
from fedgrid.partition.common.rows import EVERYONE

LEFT_OUT = "left_out"
"The key of these numbers in the metadata of a partition."


def images_left_out(table: pa.Table, test: str, pool: Labels) -> dict[str, int]:
    """Images that no client holds, `of` those that are dealt out, and how many the poorest and richest clients hold."""
    own = table.filter(pc.not_equal(table["client"], EVERYONE))
    of = len(pool.labels) if test == "own" else pool.train
    sizes = [count["counts"] for count in pc.value_counts(own["client"]).to_pylist()]
    held = pc.count_distinct(own["index"]).as_py()
    return {"images": of - held, "of": of, "smallest": min(sizes, default=0), "largest": max(sizes, default=0)}


def sentence(numbers: Mapping[str, int]) -> str:
    """The numbers of `images_left_out` in words; empty where nothing is left out."""
    if not numbers["images"]:
        return ""
    smallest, largest = numbers["smallest"], numbers["largest"]
    each = f"each client holds {smallest:,}" if smallest == largest else f"clients hold {smallest:,} to {largest:,}"
    return f"balancing the domains leaves out {numbers['images']:,} of {numbers['of']:,} images; {each}"
