"""The rule by which a search chooses: the highest mean accuracy on validation images over its seeds.

A point's accuracy is that of the round and the point of a round at which its row's cells are scored, on validation
images in place of test images: the mean over clients, each weighted equally. Of equal means the first in the grid's
order wins; a point of which a seed diverged comes after all others.
"""

from collections.abc import Mapping

from fedgrid.analysis.scores.comparisons import ROUNDING
from fedgrid.analysis.scores.points import scored
from fedgrid.analysis.scores.results import CELL, Results
from fedgrid.analysis.scores.summary import counted_rounds

Position = tuple[str, str, str, int]


def validation_scores(results: Results) -> dict[Position, float]:
    """Of each completed cell its accuracy on validation images, as a fraction, by row, data, heterogeneity and seed."""
    series = scored(results, "validation")
    counted = series.merge(counted_rounds(results, series), on=[*CELL, "round"])
    of_clients = counted.groupby([*CELL, "client"])["accuracy"].mean()
    means = of_clients.groupby(CELL).mean().to_dict()
    completed = {cell.table_position for cell in results.completed}
    return {position: float(mean) for position, mean in means.items() if position in completed}


def best(means: Mapping[int, float | None], keep: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The best points by their `means`, and further ones whose mean equals that of the last among them."""
    rounded = {point: None if mean is None else round(mean / ROUNDING) for point, mean in means.items()}
    order = sorted(means, key=lambda point: (rounded[point] is None, -(rounded[point] or 0), point))
    kept = order[:keep]
    last = rounded[kept[-1]]
    return tuple(kept), tuple(point for point in order[keep:] if last is not None and rounded[point] == last)
