"""What cells cost, measured on finished ones like them: for requests and for the time left."""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fedgrid.grid.plan.cell_metadata import CellMetadata, known_metadata
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.study.catalog import known_description
from fedgrid.partition.base import Partition
from fedgrid.settings import ARTIFACTS, ROWS, Compute

LOOKED_AT = 12
"Finished cells from which a cost is taken: the newest."
TIME_MARGIN, TIME_MORE = 1.5, 60
"What is requested of a scheduler: so many times the longest measured time, and so many seconds for the start."
MEMORY_MARGIN, MEMORY_MORE = 1.3, 500
"The same for memory, in MB: in a cell's job two processes of Snakemake take some 150 MB each."
COST_RELEVANT_TRAINING = (
    *("local_epochs", "local_steps", "batch_size", "participation", "optimizer", "augmentation", "eval_every"),
    *("eval_sample", "dtype", "tf32", "adversarial", "evaluate"),
)
"Settings that are the same in cells that cost the same, beside method, model, data, partition and, scaled, rounds."

Precedent = tuple[Path, CellMetadata]
"The results of a finished cell, and their metadata."


@dataclass(frozen=True)
class Cost:
    """Of finished cells like one: median and longest time in seconds, scaled to its rounds, and most memory in MB."""

    seconds: float
    longest: float
    memory: float
    size: float
    "Median size of the results in bytes, scaled to its rounds."
    on_gpu: bool
    "Whether any of them was computed on a GPU."


@dataclass(frozen=True)
class Request:
    """What a scheduler is asked for: MB and minutes, by Snakemake's names."""

    mem_mb: int
    runtime: int

    def for_attempt(self, attempt: int) -> "Request":
        """For the attempt of that number, counted from 1: twice as much each time."""
        return Request(self.mem_mb * 2 ** (attempt - 1), self.runtime * 2 ** (attempt - 1))


def cost(cell: Cell) -> Cost | None:
    """What finished cells of the same method say that differ in seeds, rates and the like, if there are any.

    If possible they are of the same heterogeneity, else of another one with as many clients and images.
    """
    return cost_of(precedents_of(cell), cell.row.training.rounds)


def cost_of(precedents: Sequence[Precedent], rounds: int) -> Cost | None:
    """What these finished cells say of one with so many rounds; None where there are none."""
    if not precedents:
        return None
    shares = [rounds / head.rounds for _, head in precedents]
    seconds = [head.costs.seconds.total * n for (_, head), n in zip(precedents, shares, strict=True)]
    sizes = [file.stat().st_size * n for (file, _), n in zip(precedents, shares, strict=True)]
    memory = max(head.costs.peak_memory_bytes for _, head in precedents) / 1e6
    on_gpu = any(head.hardware.get("device", "cpu") != "cpu" for _, head in precedents)
    return Cost(median(seconds), max(seconds), memory, median(sizes), on_gpu)


def size_of_artifact(cell: Cell, kind: str) -> float | None:
    """Bytes of the artifact that such finished cells kept, with its file of rows; the median, None where none did."""
    kept = [file.with_suffix(ARTIFACTS[kind]) for file, _ in precedents_of(cell)]
    parts = [(file, file.with_name(file.name + ROWS)) for file in kept if file.is_file()]
    sizes = [sum(part.stat().st_size for part in files if part.is_file()) for files in parts]
    return median(sizes) if sizes else None


def precedents_of(cell: Cell) -> list[Precedent]:
    """As `precedents`, for a planned cell, whose kind of partition says which of its settings decide costs."""
    partition = known_description("partition", cell.partition.component.reference)
    return precedents(cell.file, cell.spec, cost_settings=partition["facts"]["cost_settings"])


def precedents(
    results: Path,
    spec: Mapping[str, Any],
    among: Callable[[CellMetadata], bool] = lambda head: True,
    cost_settings: Sequence[str] = Partition.cost_settings,
) -> list[Precedent]:
    """Results and metadata of finished cells like the one of `spec` with its `results`, `among` those that qualify.

    They are of the same heterogeneity if there are any.
    """
    wanted = _costly(spec, cost_settings)
    for finished in (_newest(results.parent), _newest(results.parents[1], "*/")):
        known = ((file, head) for file in finished if (head := known_metadata(file)) and head.rounds and among(head))
        alike = (entry for entry in known if _costly(entry[1].spec, cost_settings) == wanted)
        if newest := list(itertools.islice(alike, LOOKED_AT)):
            return newest
    return []


def _costly(spec: Mapping[str, Any], cost_settings: Sequence[str]) -> list[Any]:
    """What of a cell's specification its cost depends on, beside method and rounds."""
    training, partition = spec["training"], spec["partition"]
    settings = [training.get(name) for name in COST_RELEVANT_TRAINING]
    settings += [partition["settings"].get(name) for name in cost_settings]
    return [spec["model"], partition["data"], *settings]


def request(cells: Sequence[Cell], compute: Compute, beside: int = 1) -> Request:
    """The request of a job that runs these cells, `beside` at a time.

    Taken from measured costs, and for a cell without any from the study's `compute.mem_mb` and `compute.runtime`.
    """
    known, room = [cost(cell) for cell in cells], max(0, compute.mem_mb - MEMORY_MORE)
    seconds = [TIME_MARGIN * past.longest if past else 60 * compute.runtime - TIME_MORE for past in known]
    memory = [MEMORY_MARGIN * past.memory if past else room for past in known]
    work = max(max(seconds), sum(seconds) / beside)
    return Request(math.ceil(max(memory) * min(beside, len(cells)) + MEMORY_MORE), math.ceil((work + TIME_MORE) / 60))


def _newest(folder: Path, below: str = "") -> tuple[Path, ...]:
    """The finished cells in a folder, newest first; a folder that has not changed since is not listed again."""
    folders = [folder, *folder.glob(below)] if below else [folder]
    return _listed(folder, below, tuple(f.stat().st_mtime_ns for f in folders if f.is_dir()))


@functools.lru_cache(1024)
def _listed(folder: Path, below: str, mtimes: tuple[int, ...]) -> tuple[Path, ...]:
    files = [f for f in folder.glob(f"{below}s*-*.parquet") if f.name.count(".") == 1]  # others are artifacts
    return tuple(sorted(files, key=lambda f: f.stat().st_mtime_ns, reverse=True))
