"""A planned study: its experiments, and what they share."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from fedgrid.grid.plan.model import Cell, PlannedDataset, PlannedPartition
from fedgrid.grid.plan.searches import Search
from fedgrid.grid.study.external import ExternalRow
from fedgrid.grid.study.model import FULL, ExperimentSettings, MethodRow, StudySettings

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")
PARTIAL = "partial"
"The folder of an unfinished study's tables, beside which those of the finished one come to stand."


@dataclass(frozen=True, kw_only=True)
class Experiment(ExperimentSettings):
    """An experiment: the cells of a table or figure of a paper, or of a whole study without experiments."""

    folder: Path
    "Where its tables and figures are kept."
    cells: list[Cell]
    external: list[ExternalRow] = field(default_factory=list)
    "Its rows of external results."
    searches: list[Search] = field(default_factory=list)
    "How settings of its rows are chosen."
    options: list[Cell] = field(default_factory=list)
    "Every cell that its searches may compare, and that its tables may have, whatever is chosen."
    trials: list[Cell] = field(default_factory=list)
    "Cells that its searches compare, as far as they are known; see `fedgrid.grid.plan.choices`."

    @property
    def every_cell(self) -> list[Cell]:
        """The cells of its tables and of its searches."""
        return [*self.cells, *self.trials]

    @property
    def partial(self) -> Path:
        """The folder of tables and figures of those cells that are finished, which ``fedgrid report`` makes."""
        return self.folder / PARTIAL


@dataclass(frozen=True, kw_only=True)
class Study(StudySettings):
    """A planned study: its experiments with their cells, and where everything is kept."""

    experiments: list[Experiment]

    @property
    def has_experiments(self) -> bool:
        """Whether its file names experiments; else it is one, without a name."""
        return any(experiment.id for experiment in self.experiments)

    def name_of(self, experiment: Experiment) -> str:
        """Its folder among the results, such as ``digits`` or ``fedcosr-small/table2``."""
        return experiment.folder.relative_to(self.results).as_posix()

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells of all tables; two of them, or two rows of one, may show the same one."""
        return [cell for experiment in self.experiments for cell in experiment.cells]

    @cached_property
    def by_key(self) -> dict[str, Cell]:
        """Every cell of tables and searches once."""
        return first_by_name((cell.key, cell) for experiment in self.experiments for cell in experiment.every_cell)

    @cached_property
    def known(self) -> dict[str, Cell]:
        """Every cell that may be trained, by key: also those of which it depends on a search."""
        options = (cell for experiment in self.experiments for cell in experiment.options)
        every = [*self.by_key.values(), *options]
        return first_by_name((cell.key, cell) for cell in every if not cell.pending)

    @cached_property
    def choices(self) -> dict[str, tuple[Experiment, Search, int]]:
        """The choices of all searches by key: experiment, search, and number of the rung."""
        return first_by_name(
            (rung.key, (experiment, search, number))
            for experiment in self.experiments
            for search in experiment.searches
            for number, rung in enumerate(search.rungs)
        )

    @property
    def rows(self) -> dict[str, MethodRow]:
        """The rows of all tables by label; one of two that share a label."""
        return first_by_name((cell.row.label, cell.row) for cell in self.cells)

    @property
    def folder(self) -> Path:
        """The folder of this study's tables and figures: its name, with its scale where that is not the full one."""
        return self.results / (self.name + ("" if self.scale == FULL else f"-{self.scale}"))

    @property
    def store(self) -> Path:
        """The folder of data, partitions and cells, shared by all studies."""
        return self.results / "store"

    @property
    def downloads(self) -> Path | None:
        """Where downloads are kept, or None where the study forbids them."""
        return self.store / "downloads" if self.download else None

    @cached_property
    def datasets(self) -> dict[str, PlannedDataset]:
        """Data sets to be kept in the store, by key: those that cells train on, and the images of features."""
        return {stage.key: stage for cell in self.known.values() for stage in cell.partition.data.stages}

    @cached_property
    def partitions(self) -> dict[tuple[str, int], PlannedPartition]:
        """By key and seed."""
        return {(cell.partition.key, cell.partition.seed): cell.partition for cell in self.known.values()}


def first_by_name(pairs: Iterable[tuple[Name, Value]]) -> dict[Name, Value]:
    """By name, the first value that has it."""
    first: dict[Name, Value] = {}
    for name, value in pairs:
        first.setdefault(name, value)
    return first
