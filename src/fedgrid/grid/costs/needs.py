"""What some cells need together: time on a machine, memory and disk."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedgrid.grid.costs.forecast import Prospect

START = 1.6
"Seconds of a cell's job beside its rounds: Snakemake's, and loading. Measured on digits with a warm worker."


@dataclass(frozen=True)
class Machine:
    """Where cells run: with one on each core, and one on each slot of a GPU, of which `share` are on one card."""

    cores: int
    slots: int
    share: int


@dataclass(frozen=True)
class Needs:
    """What some cells need, each of them once."""

    cells: int
    cached: int
    without_data: int
    "Cells that cannot be trained here; they count in nothing below."
    measured: int
    "Cells whose time and memory finished ones like them say."
    unknown: int
    "Cells for a GPU without a measured one like them; their time counts in nothing below."
    hours: float
    "Left with a cell on each core, and on each slot of a GPU."
    core_hours: float
    gpu_hours: float
    "Of a whole GPU, which cells may share."
    memory: float
    "MB of the largest cell that is left."
    disk: float
    "MB of the results to come."

    @property
    def to_run(self) -> int:
        """Cells without results."""
        return self.cells - self.cached


def needs_of(prospects: Iterable[Prospect], on: Machine) -> Needs:
    """The needs of some cells on a machine."""
    prospects = list(prospects)
    left = [prospect for prospect in prospects if prospect.seconds]
    seconds, on_gpu = (sum(p.seconds + START for p in left if p.on_gpu or not gpu) for gpu in (False, True))
    return Needs(
        cells=len(prospects),
        cached=sum(prospect.done for prospect in prospects),
        without_data=sum(bool(prospect.unavailable) for prospect in prospects),
        measured=sum(prospect.measured for prospect in prospects),
        unknown=sum(prospect.unknown for prospect in prospects),
        hours=max(seconds / on.cores, on_gpu / on.slots) / 3600,
        core_hours=seconds / 3600,
        gpu_hours=on_gpu / on.share / 3600,
        memory=max((prospect.memory for prospect in prospects), default=0.0),
        disk=sum(prospect.size for prospect in prospects) / 1e6,
    )
