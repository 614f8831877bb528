"""How many images no client holds where a partition gives equally many of each domain: what `domains` leaves out."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.data.common.store import Labels, read_labels
from fedgrid.errors import UserError
from fedgrid.files import read_metadata
from fedgrid.grid.plan import instances
from fedgrid.grid.plan.manifest_model import LEFT_OUT
from fedgrid.grid.plan.model import PlannedPartition
from fedgrid.grid.plan.planned_study import Study, first_by_name
from fedgrid.partition.common.rows import EVERYONE


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


def left_out_sentences(study: Study) -> Iterator[str]:
    """A line for each data set and setting that balances domains: what it leaves out in its first seed, if known."""
    planned = (cell.partition for cell in study.cells)
    first = first_by_name(((partition.data.label, partition.label), partition) for partition in planned)
    for (data, label), partition in first.items():
        with instances.creating_partition(partition.component) as kind:
            balances_domains = kind.balances_domains
        if not balances_domains:
            continue
        numbers = _numbers(partition)
        if numbers is None:
            yield (
                f"{data}, {label}: balancing the domains leaves out images; how many is known once '{data}' is in the "
                "store, and then the same command says it"
            )
        elif text := sentence(numbers):
            yield f"{data}, {label}: {text} (seed {partition.seed})"


def _numbers(partition: PlannedPartition) -> Mapping[str, int] | None:
    """From the partition if the store has it, else dealt out here; None where the labels are not in the store."""
    if partition.file.is_file() and LEFT_OUT in (metadata := read_metadata(partition.file)):
        numbers: Mapping[str, int] = metadata[LEFT_OUT]
        return numbers
    if not partition.data.built:
        return None
    pool, _ = read_labels(partition.data.files)
    with instances.creating_partition(partition.component) as kind:
        try:
            table = kind.split(pool, partition.seed)
        except UserError:  # the partition's job says it
            return None
    return images_left_out(table, partition.tested, pool)
