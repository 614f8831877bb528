"""Accuracy on clients that join after training: as they arrive, and after local training of their own."""

from dataclasses import dataclass, replace

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.scores.points import POINTS
from fedgrid.analysis.scores.results import MEMBERS, NEW, Results
from fedgrid.analysis.tables.common.grid import Table
from fedgrid.analysis.tables.common.pivot import side_by_side
from fedgrid.errors import UserError

HEADERS = {"received": "New, as received", "adapted": "New, adapted", "trained": "New, after local training"}
"""Point of a round → the header of new clients' scores there."""


@dataclass(frozen=True)
class Options(TableOptions):
    """What a study may say of it."""

    ranks: bool = False
    "Marks of the first three of a column."


def make_table(results: Results, options: Options) -> Table:
    """One row an entry and `clients` (``members`` or a point), with `pivot`'s columns, and the table to print.

    `UserError` where no cell has new clients.
    """
    joined = replace(results, clients=NEW)
    metrics = set(joined.score_metrics("test").values())
    points = [point for point in HEADERS if f"accuracy_{point}" in metrics]
    if not points:
        raise UserError("table: new_clients needs clients that join after training; set training.new_clients, to 0.2")
    kinds = {MEMBERS: (results, "Members")}
    kinds |= {point: (joined.rescored(point), HEADERS[point]) for point in points}
    explained = (
        "Members took part in training, and are scored as said above. New clients join after the last round, and are "
        f"scored {', '.join(POINTS[point] for point in points)}: after one round of the method's own local work. Bold "
        "compares the numbers of its own column."
    )
    return side_by_side(kinds, options.ranks, "clients", explained)
