"""What studies need, what of it is there, and what is left on a machine: hours, memory, disk."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrid.api.study_file import read_study
from fedgrid.errors import UserError, nearest
from fedgrid.grid.costs.around import around
from fedgrid.grid.costs.forecast import Id, Prospect, id_of, prospects
from fedgrid.grid.costs.large_artifacts import FilesToCome, files_to_come
from fedgrid.grid.costs.needs import Machine, Needs, needs_of
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.yaml_file import read
from fedgrid.jobs import gpus, machine, measurements


@dataclass(frozen=True)
class Outlook:
    """The remaining work of some studies; a cell that two of them share counts once."""

    studies: Sequence[Study]
    prospects: dict[Id, Prospect]
    "Of every cell."
    machine: Machine
    "Where they run."
    seconds: float
    "How long planning took."

    def prospects_of(self, cells: Iterable[Cell]) -> list[Prospect]:
        """Those of some cells, each once."""
        return list({id_of(cell): self.prospects[id_of(cell)] for cell in cells}.values())

    def needs_of(self, cells: Iterable[Cell]) -> Needs:
        """What some cells need together."""
        return needs_of(self.prospects_of(cells), self.machine)

    @property
    def needs(self) -> Needs:
        """What all cells need together."""
        return needs_of(self.prospects.values(), self.machine)

    @property
    def around(self) -> float:
        """Seconds that the run takes beside its cells."""
        return around(self.studies, [cell for cell in self.to_train if cell.waiting], self.machine.cores)

    @property
    def to_train(self) -> list[Cell]:
        """The cells without results whose settings are known."""
        return [prospect.cell for prospect in self.prospects.values() if not (prospect.done or prospect.cell.pending)]

    def files_to_come(self, kind: str) -> FilesToCome:
        """The artifacts of a kind, ``models`` or ``state``, that cells to come keep."""
        return files_to_come(kind, self.studies, measurements.sizes)


def unavailable(prospects: Iterable[Prospect]) -> Counter[str]:
    """Why data are unavailable, with the number of cells that need them."""
    return Counter(prospect.unavailable for prospect in prospects if prospect.unavailable)


def outlook(files: Sequence[Path], scale: str | None, only: str | None, cores: int | None) -> Outlook:
    """The remaining work of the studies in files, on so many cores or those of this machine.

    Of several studies, `only` chooses what each has, and mistakes name their file.
    """
    began = time.perf_counter()
    studies = _studies(files, scale, only)
    forecast = prospects(studies, measurements.speeds, _on_gpu)
    return Outlook(studies, forecast, _machine(cores, studies), time.perf_counter() - began)


def _studies(files: Sequence[Path], scale: str | None, only: str | None) -> list[Study]:
    if len(files) == 1:
        return [read_study(files[0], scale, only)]
    chosen = _only(files, [name.strip() for name in only.split(",")]) if only else dict.fromkeys(files)
    return [_named(file, scale, names) for file, names in chosen.items()]


def _only(files: Iterable[Path], names: list[str]) -> dict[Path, str | None]:
    """By file, those of the experiments `names` for that it has; files without any are left out."""
    experiments_of = {file: read(file).get("experiments") for file in files}
    known = {file: [*experiments] for file, experiments in experiments_of.items() if isinstance(experiments, dict)}
    for name in names:
        if not any(name in experiments for experiments in known.values()):
            every = dict.fromkeys(name for experiments in known.values() for name in experiments)
            raise UserError(f"only: no study has an experiment '{name}'; {nearest(name, every)}")
    chosen = {file: [name for name in names if name in experiments] for file, experiments in known.items()}
    return {file: ",".join(some) for file, some in chosen.items() if some}


def _named(file: Path, scale: str | None, only: str | None) -> Study:
    try:
        return read_study(file, scale, only)
    except UserError as error:
        raise error if str(file) in str(error) else UserError(f"{file}: {error}") from error


def _on_gpu(study: Study) -> bool:
    """Whether the cells of a study are computed on a GPU."""
    device = study.compute.device
    return device.startswith("cuda") or (device == "auto" and bool(gpus.cards()))


def _machine(cores: int | None, studies: Iterable[Study]) -> Machine:
    """Where the studies run; a GPU that is not here counts as one."""
    if cores is not None and cores < 1:
        raise UserError(f"--cores: must be at least 1, got {cores}")
    share = min(gpus.cells_on_a_gpu(study.compute) for study in studies)
    return Machine(cores or machine.cores(), gpus.gpu_slots(share) or share, share)
