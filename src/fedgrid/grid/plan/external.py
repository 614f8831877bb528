"""External results against the columns of a study: every label is one of the study's, and no seed is missing."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from fedgrid.errors import UserError, nearest
from fedgrid.grid.plan import instances
from fedgrid.grid.plan.instances import info_of
from fedgrid.grid.plan.model import Cell, PlannedPartition
from fedgrid.grid.plan.planned_study import Experiment
from fedgrid.grid.study.external import ExternalRow, ExternalScore, read_scores
from fedgrid.grid.study.model import Part, Placed
from fedgrid.grid.study.sections import located

Column = tuple[str, str]
"Data set and heterogeneity, by label."


def external_rows(parts: Iterable[Part]) -> list[Placed[ExternalRow]]:
    """The rows of external results of all parts of an experiment, each once."""
    first: dict[str, Placed[ExternalRow]] = {}
    for row in (row for part in parts for row in part.external):
        first.setdefault(row.value.label, row)
    return [*first.values()]


def check_external(
    rows: Iterable[Placed[ExternalRow]], experiment: Experiment, cells: Iterable[Cell], root: Path | None
) -> Iterator[str]:
    """What a reader might not expect of the rows of an experiment; UserError for a wrong label or a missing seed.

    Labels may be those of any of the study's `cells`; `root` is the folder of data sets.
    """
    columns = columns_of(cells)
    for row in rows:
        with located(row.origin.child("results")):
            scores = read_scores(Path(row.value.path))
            _check_labels(scores, columns, row.value.path)
            yield from _check_seeds(row.value, scores, experiment)
            _check_clients(scores, experiment, row.value.path, root)


def columns_of(cells: Iterable[Cell]) -> dict[Column, dict[int, PlannedPartition]]:
    """By column, the partition of each seed."""
    columns: dict[Column, dict[int, PlannedPartition]] = {}
    for cell in cells:
        columns.setdefault((cell.partition.data.label, cell.heterogeneity), {})[cell.seed] = cell.partition
    return columns


def _check_labels(scores: Iterable[ExternalScore], columns: Iterable[Column], path: str) -> None:
    known = [*columns]
    for score in scores:
        where = f"{path}, line {score.line}: the study has no"
        if score.column not in known:
            data, kinds = {data for data, _ in known}, {kind for of, kind in known if of == score.data}
            if score.data not in data:
                raise UserError(f"{where} data set '{score.data}'; {nearest(score.data, data)}")
            on = f"heterogeneity '{score.heterogeneity}' on '{score.data}'"
            raise UserError(f"{where} {on}; {nearest(score.heterogeneity, kinds)}")


def _check_seeds(row: ExternalRow, scores: list[ExternalScore], experiment: Experiment) -> Iterator[str]:
    columns = columns_of(experiment.cells)
    ignored: set[int] = set()
    for column in dict.fromkeys(score.column for score in scores if score.column in columns):
        seeds = {score.seed for score in scores if score.column == column}
        if missing := [seed for seed in columns[column] if seed not in seeds]:
            which = f"seed {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else "")
            raise UserError(f"{row.path}: has no {which} of {', '.join(column)}, which the study has")
        ignored |= seeds - {*columns[column]}
    if ignored:
        others = ", ".join(map(str, sorted(ignored)))
        yield f"methods.{row.label}: {row.path} has seeds that are not the study's and are not shown: {others}"


def _check_clients(scores: list[ExternalScore], experiment: Experiment, path: str, root: Path | None) -> None:
    """Raises UserError for a client that a partition does not have."""
    columns = columns_of(experiment.cells)
    for column in dict.fromkeys(score.column for score in scores if score.client is not None):
        for seed, partition in columns.get(column, {}).items():
            data = partition.data.images or partition.data
            number = instances.expected_of(partition.component, info_of(data.component, root), partition.seed).clients
            for score in scores:
                if score.column == column and score.seed == seed and (score.client or 0) >= number:
                    who = f"client {score.client} of {', '.join(column)}, which has the clients 0 to {number - 1}"
                    raise UserError(f"{path}, line {score.line}: names {who}")
