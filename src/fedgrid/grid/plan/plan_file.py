"""The plan of a run: a planned study as one file, from which every job of the run reads its work.

The study is planned once, where the run begins. What cells share, such as a partition, is in the file once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from fedgrid.errors import Damaged
from fedgrid.files import read_json, write_json
from fedgrid.grid.plan.choices import apply_choices
from fedgrid.grid.plan.model import Cell, PlannedPartition
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.codec import decode, encode
from fedgrid.grid.study.model import Configured, MethodRow

Shared = TypeVar("Shared")


@dataclass(frozen=True)
class Plan:
    """A study that is being run, with what the run adds to it."""

    study: Study
    configfile: str = ""
    "The study's file, as its user names it."
    packs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "Keys of the cells that share a job of a cluster, by the pack's name."
    commit: Mapping[str, Any] | None = None
    "The commit of the code; see `fedgrid.grid.plan.commit`."
    manifests: Mapping[str, Path] = field(default_factory=dict)
    "By an experiment's name among the results, what its tables are made from; of those that `only` leaves out too."
    from_nothing: bool = False
    "Whether cells are trained from their first round whatever states are kept, as evidence has to be."

    def content(self) -> dict[str, Any]:
        """The plan as plain values; `from_content` is its inverse."""
        study = self.study
        cells = [cell for experiment in study.experiments for cell in (*experiment.cells, *experiment.options)]
        rows, models = _Numbered(cell.row for cell in cells), _Numbered(cell.model for cell in cells)
        partitions = _Numbered(cell.partition for cell in cells)

        def listed(cell: Cell) -> _ListedCell:
            numbers = rows[cell.row], partitions[cell.partition], models[cell.model]
            return _ListedCell(*numbers, cell.seed, cell.train_seed, cell.code, cell.key, cell.artifacts, cell.pending)

        without_cells = replace(
            study,
            experiments=[replace(experiment, cells=[], options=[], trials=[]) for experiment in study.experiments],
        )
        cells_of_each = [[listed(cell) for cell in experiment.cells] for experiment in study.experiments]
        options_of_each = [[listed(cell) for cell in experiment.options] for experiment in study.experiments]
        plan: dict[str, Any] = encode(
            _Content(
                replace(self, study=without_cells),
                cells_of_each,
                rows.values,
                partitions.values,
                models.values,
                options_of_each,
            )
        )
        return plan

    @property
    def file(self) -> Path:
        """Where it is kept while its run is going: its name covers its content, so no other run ever changes it."""
        return self.study.store / "plans" / f"{self.study.folder.name}-{digest(self.content())}.json"

    def write(self, file: Path | None = None) -> Path:
        """Writes the plan to its `file`, even where it is there: a study's newest plan is that of its latest run."""
        file = file or self.file
        write_json(file, self.content())
        return file


@dataclass(frozen=True)
class _ListedCell:
    """A cell; its row, partition and model by their numbers."""

    row: int
    partition: int
    model: int
    seed: int
    train_seed: int
    code: str
    key: str
    artifacts: tuple[str, ...]
    pending: bool


@dataclass(frozen=True)
class _Content:
    """What a plan's file holds."""

    plan: Plan
    "Without cells."
    cells: list[list[_ListedCell]]
    "Of each experiment."
    rows: list[MethodRow]
    partitions: list[PlannedPartition]
    models: list[Configured]
    options: list[list[_ListedCell]]
    "Of each experiment."

    def cell(self, listed: _ListedCell) -> Cell:
        row, partition = self.rows[listed.row], self.partitions[listed.partition]
        identity = listed.seed, listed.train_seed, listed.code, listed.key, listed.artifacts, listed.pending
        return Cell(row, partition, self.models[listed.model], *identity)


def read(file: Path) -> Plan:
    """The plan in a file, with what searches have chosen by now.

    UserError where there is none, `Damaged` for one that is not what was written.
    """
    content = read_json(file)
    try:
        plan = from_content(content)
    except (ValueError, IndexError) as error:
        raise Damaged(file, "not a plan of this version of fedgrid") from error
    return replace(plan, study=apply_choices(plan.study))


def from_content(content: Mapping[str, Any]) -> Plan:
    """The inverse of `Plan.content`; ValueError for other content."""
    decoded = decode(_Content, content)
    study = decoded.plan.study
    lists = zip(study.experiments, decoded.cells, decoded.options, strict=True)
    experiments = [
        replace(experiment, cells=list(map(decoded.cell, cells)), options=list(map(decoded.cell, options)))
        for experiment, cells, options in lists
    ]
    return replace(decoded.plan, study=replace(study, experiments=experiments))


class _Numbered(Generic[Shared]):
    """Different objects in the order in which they come, and their numbers."""

    def __init__(self, objects: Iterable[Shared]):
        self.values: list[Shared] = []
        self.numbers: dict[int, int] = {}
        for shared in objects:
            if id(shared) not in self.numbers:
                self.numbers[id(shared)] = len(self.values)
                self.values.append(shared)

    def __getitem__(self, shared: Shared) -> int:
        return self.numbers[id(shared)]
