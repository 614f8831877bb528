"""How many images no client holds where a partition gives equally many of each domain: what `domains` leaves out."""

from collections.abc import Iterator, Mapping

from fedgrid.data.common.store import read_labels
from fedgrid.errors import UserError
from fedgrid.files import read_metadata
from fedgrid.grid.plan import instances
from fedgrid.grid.plan.manifest_model import LEFT_OUT
from fedgrid.grid.plan.model import PlannedPartition
from fedgrid.grid.plan.planned_study import Study, first_by_name
from fedgrid.partition.common.left_out import LEFT_OUT, images_left_out, sentence
from fedgrid.partition.domains import Domains


def is_of_domains(kind: str) -> bool:
    """Whether a kind of partition, by its module, gives clients one domain each."""
    return kind == Domains.__module__


def outlook(study: Study) -> Iterator[str]:
    """A line for each data set and setting of `domains`: what is left out in its first seed, or when that is known."""
    planned = (cell.partition for cell in study.cells if is_of_domains(cell.partition.component.module))
    first = first_by_name(((partition.data.label, partition.label), partition) for partition in planned)
    for (data, label), partition in first.items():
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
    with instances.partition(partition.component) as kind:
        try:
            table = kind.split(pool, partition.seed)
        except UserError:  # the partition's job says it
            return None
    return images_left_out(table, partition.tested, pool)
