"""How the settings of rows were chosen, in sentences."""

from collections.abc import Iterator

from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.results import Results
from fedgrid.grid.plan.manifest_model import SearchDescription
from fedgrid.grid.study.expansion import TRAINING, point_text, shown

RULE = (
    "Chosen: the point with the highest mean over the search's seeds. Ties go to the first in grid order; a point with "
    "a diverged seed ranks last."
)


def chosen_settings(results: Results) -> list[str]:
    """A sentence on the settings that searches chose, by row and, where they differ, by column; none without any."""
    searches = results.study.searches
    if not searches:
        return []
    rows = dict.fromkeys(search.row for search in searches)
    chosen = [f"{results.names[row]} {_row_choices(results, [s for s in searches if s.row == row])}" for row in rows]
    return [f"Chosen on validation images of {seeds_of(searches)}, which are not the table's: {'; '.join(chosen)}."]


def seeds_of(searches: list[SearchDescription]) -> str:
    """The seeds of searches, in words."""
    seeds = list(dict.fromkeys(seed for search in searches for seed in search.seeds))
    return f"seed{'s' * (len(seeds) > 1)} {listing(map(str, seeds))}"


def _row_choices(results: Results, searches: list[SearchDescription]) -> str:
    columns: dict[str, list[str]] = {}
    for search in searches:
        chosen = "not chosen yet" if search.chosen is None else point_text(search.points[search.chosen])
        columns.setdefault(chosen, []).append(results.column(*search.column))
    if len(columns) == 1:
        return next(iter(columns))
    return ", ".join(f"{text} ({'; '.join(names)})" for text, names in columns.items())


def notes_on(search: SearchDescription) -> Iterator[str]:
    """What a reader has to know of a choice: a tie, a value at the edge of its grid, no point with a score."""
    if search.chosen is None:
        return
    last = search.choices[-1]
    if all(score.mean is None for score in last.scores):
        yield "No point has a score on every seed: the first of the grid was taken."
        return
    for choice, rounds in zip(search.choices, search.rounds, strict=True):
        if choice.tied:
            tied = "; ".join(point_text(search.points[point]) for point in choice.tied)
            yield f"Tied after {rounds} rounds, and later in the grid's order: {tied}."
    yield from _edges(search.points, search.points[search.chosen])


def _edges(points: list[dict[str, object]], chosen: dict[str, object]) -> Iterator[str]:
    for name, value in chosen.items():
        values = [point[name] for point in points]
        numbers = [number for number in values if isinstance(number, int | float) and not isinstance(number, bool)]
        if len(set(numbers)) > 1 and len(numbers) == len(values) and value in (min(numbers), max(numbers)):
            end, further = ("smallest", "smaller") if value == min(numbers) else ("largest", "larger")
            setting = f"{name.removeprefix(TRAINING)} = {shown(value)}"
            yield f"{setting} is the {end} value of the grid: a {further} one may be better."
