"""A cell as trackers of experiments know it: a run with parameters, scalars by step, and how it ended."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedgrid.analysis.scores import summary
from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.curves import curves
from fedgrid.analysis.scores.results import CELL, METRIC, Results
from fedgrid.analysis.scores.settings import flattened, resolved_settings
from fedgrid.files import slug
from fedgrid.grid.plan.manifest_model import Cell

Parameter = str | int | float | bool


@dataclass(frozen=True)
class Point:
    """One value of a curve; `step` is the round."""

    tag: str
    step: int
    value: float


@dataclass(frozen=True)
class Run:
    """A cell before it has results."""

    path: tuple[str, ...]
    "Row, data, heterogeneity and seed, as folders are named."
    key: str
    study: str
    "Title of its study."
    parameters: Mapping[str, Parameter]

    @property
    def name(self) -> str:
        """The path as one text."""
        return "/".join(self.path)


@dataclass(frozen=True)
class Ending:
    """How a cell ended."""

    status: str
    "``ok`` or ``diverged``."
    metrics: Mapping[str, float]
    "Its score and its costs."
    tags: Mapping[str, str]
    "Reason, code, commit, versions, hardware."


class Writer(Protocol):
    """Writes one run."""

    def write(self, points: Iterable[Point]) -> None:
        """Adds points, which a reader finds at once."""

    def end(self, ending: Ending) -> None:
        """Adds how the cell ended; the run is complete."""

    def leave(self) -> None:
        """Closes a run whose cell has no results."""


class Tracker(Protocol):
    """Where runs are written to."""

    def begin(self, run: Run) -> Writer | None:
        """What writes the run, in place of an earlier version of it; None where it is there and complete."""

    @property
    def hint(self) -> str:
        """How a person looks at the runs: a command, or a sentence."""


SCORES = ("accuracy", "accuracy_weighted", "std_clients")


def points_of(results: Results) -> dict[tuple[Any, ...], list[Point]]:
    """By a cell's place in tables, the points of its curves.

    ``accuracy/trained`` is the mean over clients, ``accuracy_std/trained`` the standard deviation over them, and
    ``bytes/up`` what all clients sent in the round; other metrics are means over clients.
    """
    points: dict[tuple[Any, ...], list[Point]] = {}
    for row in curves(results).itertuples(index=False):
        position = (row.label, row.data, row.heterogeneity, int(row.seed))
        points.setdefault(position, []).extend(_points(row))
    return points


def _points(row: Any) -> Iterator[Point]:
    step, parts = int(row.round), METRIC.fullmatch(row.metric)
    if parts is None:
        yield Point(row.metric, step, float(row.mean))
        return
    quantity, point = parts["quantity"], parts["point"]
    name = row.metric.removesuffix(f"_{point}")
    yield Point(f"{name}/{point}", step, float(row.total if quantity == "bytes" else row.mean))
    if quantity == "accuracy":
        yield Point(f"{name}_std/{point}", step, float(row.std))


def runs_of(results: Results, cells: Sequence[Cell], experiment: str = ".") -> list[Run]:
    """The run of each cell, in their order; the paths begin with the folder of the `experiment`."""
    study = f"{results.study.paper}: {results.study.title}" if results.study.paper else results.study.title
    return [
        Run((*Path(experiment).parts, *path), cell.key, study, _parameters(results, cell))
        for path, cell in zip(_paths(cells), cells, strict=True)
    ]


def _paths(cells: Iterable[Cell]) -> list[tuple[str, ...]]:
    """The path of each cell; where names differ only in characters that no file can have, keys tell them apart."""
    paths = [((*map(slug, cell.entry), f"s{cell.seed}"), cell.key) for cell in cells]
    counts = Counter(path for path, _ in paths)
    return [path if counts[path] == 1 else (*path[:-1], f"{path[-1]}-{key}") for path, key in paths]


def _parameters(results: Results, cell: Cell) -> dict[str, Parameter]:
    """What a cell is: names, seed, model, and the settings of method, training and partition in its column."""
    study, (training, hyperparameters) = results.study, resolved_settings(results, cell.label, cell.column)
    elsewhere = next((part for part in study.elsewhere if cell.column in part.columns), None)
    partition = study.partitions.get(cell.data, {}).get(cell.heterogeneity, {})
    names: dict[str, Any] = {
        "row": results.names[cell.label],
        "data": results.title(cell.data),
        "heterogeneity": results.heterogeneity_title(cell.heterogeneity),
        "seed": cell.seed,
        "model": (elsewhere and elsewhere.model) or study.model,
    }
    values = names | {"method": study.methods[cell.label].method}
    for part, settings in (("method", hyperparameters), ("training", training), ("partition", partition)):
        values |= {f"{part}.{name}": value for name, value in flattened(settings)}
    return {name: _plain(value) for name, value in values.items() if value not in (None, "")}


def _plain(value: Any) -> Parameter:
    return value if isinstance(value, str | int | float | bool) else json.dumps(value, ensure_ascii=False)


def endings_of(results: Results) -> dict[tuple[Any, ...], Ending]:
    """By a cell's place in tables, how each finished cell ended."""
    scores = summary.cell_scores(results).set_index(CELL)[list(SCORES)].to_dict("index")
    return {cell.table_position: _ending(cell, scores[cell.table_position]) for cell in results.trained}


def _ending(cell: FinishedCell, scores: Mapping[Any, float]) -> Ending:
    costs = {"seconds": cell.costs.seconds.total, "peak_memory_bytes": float(cell.costs.peak_memory_bytes)}
    metrics = {f"final/{name}": float(value) for name, value in {**scores, **costs}.items() if not math.isnan(value)}
    commit = {"commit": cell.commit.id + ("" if cell.commit.clean else " (edited)")} if cell.commit else {}
    versions = {f"version.{name}": value for name, value in cell.versions.items()}
    hardware = {f"hardware.{name}": str(value) for name, value in cell.hardware.items()}
    tags = {"key": cell.key, "code": cell.code, "reason": cell.reason, **commit, **versions, **hardware}
    return Ending(cell.status, metrics, {name: value for name, value in tags.items() if value})
