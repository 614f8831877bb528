"""Jobs that are started directly, without Snakemake: for the Python interface and ``fedgrid run``."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedgrid.errors import UserError
from fedgrid.grid.plan.commit import commit
from fedgrid.grid.plan.model import Cell, PlannedPartition
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs import apart
from fedgrid.jobs.signals import TERMINATED
from fedgrid.jobs.status import Note
from fedgrid.run.pin import Pin


@dataclass(frozen=True)
class DirectJobs:
    """Jobs of a study, each in a process of its own with the code that the study was planned with."""

    study: Study

    @cached_property
    def plan(self) -> Path:
        """The file of the plan, which jobs read; it stays if one is interrupted, and `fedgrid prune` respects it."""
        return Plan(self.study, commit=commit()).write()

    @cached_property
    def environment(self) -> dict[str, str]:
        """Variables that the jobs' environment has besides those of this process."""
        return Pin(self.study).keep() | {"OMP_NUM_THREADS": str(self.study.compute.threads)}

    def prepare(self, partition: PlannedPartition) -> None:
        """Builds the data set, its features and the partition where the store lacks them; UserError where it cannot."""
        for stage in partition.data.stages:
            if not stage.built:
                apart.require("fedgrid.jobs.dataset", [str(self.plan), stage.key], self.environment)
        if not partition.file.is_file():
            names = [str(self.plan), partition.key, str(partition.seed)]
            apart.require("fedgrid.jobs.partition", names, self.environment, remarks=False)

    def train(self, cell: Cell, out: Path, heeds_signals: bool) -> bool:
        """Trains a cell, whose results go to `out`; False where a signal interrupted it.

        Raises UserError where there are no results; the traceback of an error in the cell's code is printed before.
        """
        arguments = [str(self.plan), cell.key, "--out", str(out)]
        code = apart.run("fedgrid.jobs.cell", arguments, self.environment, heeds_signals=heeds_signals)
        if code == TERMINATED:
            return False
        if code:
            noted = Note.read_if_possible(cell.status)
            killed = f"{cell.description}: its process was killed; run it again to continue"
            raise UserError(noted.reason if noted.state == "failed" else killed)
        self.finish()
        return True

    def finish(self) -> None:
        """Removes the plan, if a job needed one."""
        if plan := vars(self).get("plan"):
            plan.unlink(missing_ok=True)
