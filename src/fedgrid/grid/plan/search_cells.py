"""The cells of a row whose settings are searched: with which rows and seeds it is planned, and its searches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedgrid.grid.plan.choices import table_cells
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.searches import Search, rungs_of, schedule
from fedgrid.grid.study.expansion import point_text
from fedgrid.grid.study.model import MethodRow, Part, SearchedRow, Seeds

STATE = ("state",)
"What a cell keeps so that the next rung continues from it."


@dataclass(frozen=True)
class Run:
    """A row with seeds, which a study plans on all its data and kinds of heterogeneity."""

    row: MethodRow
    seeds: Sequence[Seeds]
    artifacts: tuple[str, ...]


@dataclass(frozen=True)
class PlannedCells:
    """Cells of tables, pending ones among them, and the searches that choose these, among further cells."""

    table: list[Cell]
    searches: list[Search]
    options: list[Cell]


def merged(planned: Sequence[PlannedCells]) -> PlannedCells:
    """All of several."""
    return PlannedCells(
        [cell for one in planned for cell in one.table],
        [search for one in planned for search in one.searches],
        [cell for one in planned for cell in one.options],
    )


def runs_of(row: MethodRow, part: Part) -> list[Run]:
    """With what a row is planned: once, or where it is searched at each point for the table, then on each rung."""
    search = part.searches.get(row.label)
    if search is None:
        return [Run(row, part.seeds, part.artifacts)]
    of_table = [Run(at_point, part.seeds, part.artifacts) for _, at_point in search.points]
    rungs = _schedule(search)
    of_rungs = [
        Run(_trial(number, search, rounds), search.seeds, () if (rounds, keep) == rungs[-1] else STATE)
        for rounds, keep in rungs
        for number in range(len(search.points))
    ]
    return of_table + of_rungs


def planned_row(row: MethodRow, part: Part, cells: Sequence[Sequence[Cell]]) -> PlannedCells:
    """The row, from the cells of each run of `runs_of`."""
    search = part.searches.get(row.label)
    if search is None:
        return PlannedCells([*cells[0]], [], [])
    options = [cell for of_run in cells for cell in of_run]
    known = {cell.key: cell for cell in options}
    columns = dict.fromkeys((cell.partition.data.label, cell.heterogeneity) for cell in cells[0])
    searches = [_search(search, row, column, cells) for column in columns]
    return PlannedCells([c for one in searches for c in table_cells(one, known).values()], searches, options)


def _schedule(search: SearchedRow) -> list[tuple[int, int]]:
    _, first = search.points[0]
    return schedule(len(search.points), search.rungs or (first.training.rounds,))


def _trial(point: int, search: SearchedRow, rounds: int) -> MethodRow:
    """The row at a point, as its search trains it for so many rounds."""
    settings, row = search.points[point]
    text = f" ({point_text(settings)})"
    training = replace(row.training, rounds=rounds)
    return replace(row, label=row.label + text, title=row.title + text, training=training)


def _search(search: SearchedRow, row: MethodRow, column: tuple[str, str], cells: Sequence[Sequence[Cell]]) -> Search:
    of_column = [[c for c in of_run if (c.partition.data.label, c.heterogeneity) == column] for of_run in cells]
    keys = [tuple(cell.key for cell in of_run) for of_run in of_column]
    number, rungs = len(search.points), _schedule(search)
    trials = [tuple(keys[number * (i + 1) : number * (i + 2)]) for i in range(len(rungs))]
    return Search(
        row=row.label,
        data=column[0],
        heterogeneity=column[1],
        points=tuple(dict(settings) for settings, _ in search.points),
        seeds=tuple(seed for seed, _, _ in search.seeds),
        rungs=rungs_of(of_column[0][0].store, rungs, trials, [row.score, row.at]),
        candidates=tuple(keys[:number]),
    )
