"""A study from Python: its cells, what is left of them, and a run of the workflow."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fedgrid.api.explanation import explain
from fedgrid.api.results import StudyResults, results
from fedgrid.api.study_file import read_study
from fedgrid.api.training import TrainedCell, ensure_results, read_cell
from fedgrid.command import DEFAULT
from fedgrid.errors import UserError, nearest
from fedgrid.grid.costs.forecast import id_of, prospects
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.yaml_file import read
from fedgrid.jobs import measurements
from fedgrid.run import cell_states
from fedgrid.run.launch import SNAKEMAKE, snakemake_arguments


class StudyFile:
    """A study's file, at a scale. It is read again by each call, so that edits of the file count at once."""

    def __init__(self, file: Path, scale: str | None, only: str | None):
        self.file, self.scale, self.only = file, scale, only
        self.planned()

    def planned(self) -> Study:
        """The study with its cells; UserError for any mistake in the file."""
        return read_study(self.file, self.scale, self.only)

    @property
    def cells(self) -> pd.DataFrame:
        """Every cell of every experiment, one a row; those that a search compares have its settings in their method.

        Columns: experiment (empty where the study has none), method, data, heterogeneity, seed, state (done, running,
        queued, failed, diverged, missing or unavailable), remark, key, file.
        """
        study = self.planned()
        states = cell_states.read(study)
        rows = [
            {"experiment": experiment.id, **_names(cell), "state": states[cell.key].name}
            | {"remark": states[cell.key].remark, "key": cell.key, "file": cell.file}
            for experiment in study.experiments
            for cell in experiment.every_cell
        ]
        return pd.DataFrame(rows)

    def plan(self) -> pd.DataFrame:
        """The cells that a run would train, each once, with estimates of their costs.

        Columns: method, data, heterogeneity, seed, seconds (on one core), memory (peak, in MB), size (of the results,
        in bytes), measured, key. Where `measured` is true, the estimates come from similar finished cells, else from a
        calibration that takes two seconds and is kept in the user's cache.
        """
        study = self.planned()
        expected = prospects([study], measurements.speeds)
        rows = [
            {**_names(cell), "seconds": prospect.seconds, "memory": prospect.memory, "size": prospect.size}
            | {"measured": prospect.measured, "key": cell.key}
            for cell in study.by_key.values()
            if not (prospect := expected[id_of(cell)]).done and not prospect.unavailable
        ]
        return pd.DataFrame(rows, columns=[*_NAMES, "seconds", "memory", "size", "measured", "key"])

    def run(self, cores: int | str = "all", slurm: bool = False, options: Sequence[str] = ()) -> None:
        """Runs the workflow in the working folder, as ``fedgrid go`` does.

        With `slurm`, jobs go to SLURM and `cores` does not count. `options` are further arguments of Snakemake, such
        as ``["--keep-going"]``. Raises UserError if a job fails or the run is stopped; finished jobs are kept, and the
        next call resumes.
        """
        read(self.file)  # it may have been edited, and Snakemake says less of what is wrong with it
        arguments = snakemake_arguments(self.file, str(cores), self.scale, self.only, slurm, options)
        if subprocess.run([*SNAKEMAKE, *arguments]).returncode:
            raise UserError(f"{self.file}: the run was stopped, or some jobs failed; see above and fedgrid status")

    def results(self, experiment: str = "") -> StudyResults:
        """The results of the study or, where it has experiments, of one of them; raises as `fedgrid.results` does."""
        study = self.planned()
        folders = {planned.id: planned.folder for planned in study.experiments}
        if experiment not in folders:
            raise UserError(f"{self.file}: no experiment '{experiment}'; {nearest(experiment, folders)}")
        return results(folders[experiment])

    def explain(self, *words: str, code: bool = False) -> str:
        """What stands behind a number, as ``fedgrid explain`` prints it; `words` are those of its table, or parts.

        A key may also be that of results in the store that the study does not plan. With `code`, also the modules that
        make the key. Raises UserError where the words fit no cell, or several that differ in more than their seeds.
        """
        study = self.planned()
        return "\n".join(explain([(study.name, study)], words, code))

    def train(self, method: str, data: str = "", heterogeneity: str = "", seed: int | None = None) -> TrainedCell:
        """Trains one cell in a process of its own, unless it is done; names are those of `cells`.

        A name that all cells of the method share may be left out. Raises UserError if the names fit no cell or several,
        if a search has yet to choose the cell's settings, for unavailable data, and for a device that this machine
        lacks.
        """
        study = self.planned()
        wanted = {"method": method, "data": data, "heterogeneity": heterogeneity, "seed": seed}
        asked = {name: value for name, value in wanted.items() if value not in ("", None)}
        matches = [cell for cell in study.by_key.values() if asked.items() <= _names(cell).items()]
        if len(matches) != 1:
            named = ", ".join(f"{name} {value}" for name, value in asked.items())
            raise UserError(f"{self.file}: {len(matches)} cells are of {named}; `cells` lists all")
        if matches[0].pending:
            raise UserError(f"{matches[0].description}: a search has yet to choose its settings; run the study first")
        ensure_results(study, matches[0], matches[0].file)
        return read_cell(matches[0].file)


_NAMES = ("method", "data", "heterogeneity", "seed")


def _names(cell: Cell) -> dict[str, str | int]:
    return dict(zip(_NAMES, (cell.row.label, cell.partition.data.label, cell.heterogeneity, cell.seed), strict=True))


def study(
    file: str | os.PathLike[str] = DEFAULT, scale: str | None = None, only: str | Sequence[str] | None = None
) -> StudyFile:
    """The study in a file, at one of its scales, with all of its experiments or those that `only` names.

    `only` is a sequence of names, or a text with commas between them. Raises UserError for any mistake in the file,
    with its line.
    """
    chosen = only if only is None or isinstance(only, str) else ",".join(only)
    return StudyFile(Path(file), scale, chosen)
