"""What a click on a number of a table shows: its seeds with their scores and files, and a command on its cells."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path

from fedgrid.analysis.prose.origin import portable
from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import ENTRY, cell_scores
from fedgrid.analysis.tables.common.grid import Entry, Grid
from fedgrid.analysis.tables.common.pivot import column_name
from fedgrid.grid.plan.manifest_model import Cell
from fedgrid.grid.study.model import FULL


@dataclass(frozen=True)
class Seed:
    """One seed of a number: its score in percent, or its status, and the link to the file of its cell."""

    seed: int
    score: str
    href: str = ""

    @property
    def file(self) -> str:
        """The name of the file."""
        return Path(self.href).name


@dataclass(frozen=True)
class Number:
    """An accuracy of a table, and what stands behind it."""

    id: str
    name: str
    text: str
    seeds: list[Seed]
    command: str


class Details:
    """The numbers of one experiment's tables: `links` has the file of every cell as a link, by key."""

    def __init__(self, results: Results, links: Mapping[str, str], experiment: str, configfile: str):
        self.results, self.links, self.experiment, self.configfile = results, links, experiment, configfile
        self.numbers: list[Number] = []
        self.cells: dict[tuple[str, str, str], list[Cell]] = {}
        for cell in results.cells:
            self.cells.setdefault(cell.entry, []).append(cell)

    def linked(self, grid: Grid) -> Grid:
        """A table of accuracies whose numbers open their details, which are added to `numbers`."""
        domains = any(entry.position and entry.position[3] for _, entries in grid.rows for entry in entries)
        scores = cell_scores(self.results, domains)
        accuracy_by_key = scores.set_index([*ENTRY, "seed"])["accuracy"].to_dict()

        def score(cell: Cell, domain: str) -> str:
            accuracy = float(accuracy_by_key.get((*cell.entry, domain, cell.seed), nan))
            return cell.status if isnan(accuracy) else f"{percent(accuracy)} %"

        rows = [(name, [self._linked(entry, score) for entry in entries]) for name, entries in grid.rows]
        return replace(grid, rows=rows)

    def _linked(self, entry: Entry, score: Callable[[Cell, str], str]) -> Entry:
        if entry.position is None or not (cells := self.cells.get(entry.position[:3])):
            return entry
        domain = entry.position[3]
        seeds = [Seed(cell.seed, score(cell, domain), self.links.get(cell.key, "")) for cell in cells]
        id_ = f"n-{self.experiment}-{len(self.numbers)}"
        label, *column = entry.position
        name = f"{self.results.names[label]}: {column_name(self.results, *column)}"
        self.numbers.append(Number(id_, name, entry.text, seeds, self._command(entry.position, cells[0])))
        return replace(entry, popover=id_)

    def _command(self, position: tuple[str, str, str, str], cell: Cell) -> str:
        """The command that explains the number: by words of the table, or by a key where they mean other rows too."""
        label, data, heterogeneity, _ = position
        name = self.results.names[label]
        rows = self.results.study.methods
        ambiguous = any(name.casefold() == rows[other].method.casefold() for other in rows if other != label)
        query = [cell.key[:8]] if ambiguous else [self.experiment, name, self.results.title(data), heterogeneity]
        scale = [] if self.results.study.scale == FULL else ["--scale", self.results.study.scale]
        options = ["--configfile", portable(self.configfile), *scale]
        return shlex.join(["fedgrid", "explain", *options, *filter(None, query)])
