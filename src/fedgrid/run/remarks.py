"""What a user is told before a run begins: data that are lacking, and cells that are trained again for an artifact."""

from collections.abc import Iterator

from fedgrid.grid.planned import Cell
from fedgrid.grid.planned_study import Study


def before(study: Study) -> Iterator[str]:
    """A line for each thing that is lacking, with the experiments that wait for it, and one for artifacts."""
    waiting: dict[str, dict[str, None]] = {}
    for experiment in study.experiments:
        for cell in experiment.cells:
            if cell.lacking:
                waiting.setdefault(cell.lacking, {})[experiment.id] = None
    for lacking, experiments in waiting.items():
        yield f"{lacking}; waiting for it: {', '.join(experiments)}"
    again = [cell for cell in study.by_key.values() if _without_artifact(cell)]
    if again:
        kinds = sorted({kind for cell in again for kind in cell.artifacts})
        cells = f"{len(again)} finished cell{'s' * (len(again) > 1)}"
        yield f"{cells} kept no {' or '.join(kinds)} and will be trained again, to the same numbers"


def _without_artifact(cell: Cell) -> bool:
    return cell.file.is_file() and not cell.done
