"""Notices before a run begins: missing data and GPUs, and cells that are trained again for an artifact."""

from collections.abc import Iterator

from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs import gpus


def before(study: Study, submits: bool) -> Iterator[str]:
    """A line for each missing data set or GPU, with the experiments that need it, and one for artifacts.

    Where a run `submits` its jobs, a machine without GPUs gets only a line.
    """
    yield from study.notices
    waiting: dict[str, dict[str, None]] = {}
    for experiment in study.experiments:
        for cell in experiment.cells:
            if cell.unavailable:
                waiting.setdefault(cell.unavailable, {})[experiment.id] = None
    for reason, experiments in waiting.items():
        yield f"{reason}; waiting for it: {', '.join(experiments)}"
    if submits and (shortage := missing_gpus(study)):
        yield f"{shortage}; each job asks the cluster for one"
    again = [cell for cell in study.by_key.values() if _without_artifact(cell)]
    if again:
        kinds = sorted({kind for cell in again for kind in cell.artifacts})
        cells = f"{len(again)} finished cell{'s' * (len(again) > 1)}"
        yield f"{cells} kept no {' or '.join(kinds)} and will be trained again, to the same numbers"


def missing_gpus(study: Study) -> str:
    """What cells that are to be computed ask for beyond this machine's GPUs; empty: nothing."""
    waits = any(cell.waiting for cell in study.by_key.values())
    return gpus.shortage(study.compute.device) if waits else ""


def _without_artifact(cell: Cell) -> bool:
    return cell.file.is_file() and not cell.done
