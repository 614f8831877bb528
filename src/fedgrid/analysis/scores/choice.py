"""A choice of a search as a job: the points that go on from a rung, or the one that the table takes, as a JSON file.

Run as ``python -m fedgrid.analysis.scores.choice PLAN KEY OUT`` once the cells of the rung exist.
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc

from fedgrid.analysis.scores.collect import in_memory
from fedgrid.analysis.scores.validation import best, validation_scores
from fedgrid.command import run
from fedgrid.errors import UserError
from fedgrid.files import read_table, write_json
from fedgrid.grid.costs.forecast import trained_in_a_round
from fedgrid.grid.plan import manifest, plan_file
from fedgrid.grid.plan.cell_metadata import cell_metadata
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.plan.searches import Choice, Score, Search
from fedgrid.grid.study.codec import encode
from fedgrid.partition.base import Expected


def choose(study: Study, key: str) -> Choice:
    """What the choice of that key is, from the results of its rung's cells."""
    experiment, search, number = study.choices[key]
    rung, alive = search.rungs[number], search.alive(number)
    if alive is None:
        raise UserError(f"{rung.file}: the choice before it has not been made; run the same command again")
    cells = {point: [study.known[trial] for trial in rung.trials[point]] for point in alive}
    accuracies = _accuracies(study, experiment, [cell for of_point in cells.values() for cell in of_point])
    scores = tuple(
        Score(
            point,
            tuple(accuracies.get(cell.table_position) for cell in of_point),
            sum(_images(cell, _rounds(study, search, number, point)) for cell in of_point),
        )
        for point, of_point in cells.items()
    )
    return Choice(scores, *best({score.point: score.mean for score in scores}, rung.keep))


def _accuracies(study: Study, experiment: Experiment, cells: list[Cell]) -> dict[tuple[str, str, str, int], float]:
    """On validation images, by position; of completed cells alone."""
    of_search = manifest.content(study, replace(experiment, cells=cells, searches=[]))
    return validation_scores(in_memory(of_search, [cell.key for cell in cells]))


def _rounds(study: Study, search: Search, number: int, point: int) -> int:
    """Rounds that a point is trained for on a rung, without those of the rung before if its cells go on from there."""
    rounds = search.rungs[number].rounds
    if number == 0:
        return rounds
    heads = [cell_metadata(study.known[key].file) for key in search.rungs[number - 1].trials[point]]
    goes_on = all(head.state and not head.state.reads for head in heads)
    return rounds - search.rungs[number - 1].rounds if goes_on else rounds


def _images(cell: Cell, rounds: int) -> float:
    """Training images of so many rounds of a finished cell, over all clients."""
    table, _ = read_table(cell.file, ["round", "metric", "value"])
    clients = table.filter(pc.equal(table["metric"].cast("string"), "train_samples"))["value"]
    images = Expected(len(clients), int(pc.sum(clients).as_py()), 0, 0)
    return rounds * trained_in_a_round(cell, images)


def from_plan(file: Path, key: str, out: Path) -> None:
    """Makes the choice of that key of the plan in `file`."""
    write_json(out, encode(choose(plan_file.read(file).study, key)))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: PLAN KEY OUT."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.scores.choice", description="Choose among settings.")
    parser.add_argument("file", type=Path, metavar="PLAN", help="the plan of the run")
    parser.add_argument("key", metavar="KEY", help="of the choice")
    parser.add_argument("out", type=Path, metavar="OUT", help="JSON to write")
    parser.set_defaults(action=from_plan)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
