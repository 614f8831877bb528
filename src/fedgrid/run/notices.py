"""Notices before a run begins: what is missing, cells that are trained again for an artifact, GPUs used in turns."""

from collections.abc import Iterable, Iterator

from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs import gpus

TURNS = (
    f"cells that share a GPU take turns there. Once {gpus.MPS} -d runs they compute side by side: on an H200 eight "
    "then did three times the rounds of one"
)


def run_notices(study: Study, submits: bool, shares_gpus: bool = False) -> Iterator[str]:
    """A line for each missing data set or GPU, with the experiments that need it, one for artifacts, one on sharing.

    Where a run `submits` its jobs, a machine without GPUs gets only a line. `shares_gpus`: several cells at a time
    compute on a GPU of this machine.
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
    if shares_gpus and sum(cell.waiting for cell in study.by_key.values()) > 1 and gpus.could_be_side_by_side():
        yield TURNS
    yield from missing_artifact_notices(study.by_key.values())


def missing_artifact_notices(cells: Iterable[Cell]) -> Iterator[str]:
    """Sentences on finished cells that lack artifacts: made from a kept state, or else by training again."""
    lacking = [cell for cell in cells if cell.lacks_artifacts]
    for from_state in (True, False):
        some = [cell for cell in lacking if cell.has_state is from_state]
        if some:
            files = (item for cell in some for item in cell.kept_beside(cell.file).items())
            missing = {kind for kind, file in files if not file.is_file()}
            how = "do the last round again, from its kept state" if from_state else "be trained again"
            number = f"{len(some)} finished cell{'s' * (len(some) > 1)}"
            yield f"{number} kept no {' or '.join(sorted(missing))} and will {how}, with the same numbers"


def missing_gpus(study: Study) -> str:
    """What cells that are to be computed ask for beyond this machine's GPUs; empty: nothing."""
    waits = any(cell.waiting for cell in study.by_key.values())
    return gpus.shortage(study.compute.device) if waits else ""
