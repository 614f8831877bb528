"""The study of an archive, as it is written and with what it chose, without unpacking the rest."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.analysis.scores.results import Results, load
from fedgrid.api.archive.checking import Archive, checked, room_in
from fedgrid.api.archive.layout import OUTSIDE, PROJECT, RESULTS
from fedgrid.errors import UserError
from fedgrid.grid.study.sections import Section
from fedgrid.grid.study.yaml_file import read


@dataclass(frozen=True)
class FinishedStudy:
    """A study of which an archive has all cells."""

    content: Section
    "Its file."
    results: Results
    "Those of its one table, with what its searches chose."


def read_archived_study(file: Path) -> FinishedStudy:
    """The study of an archive.

    Raises UserError, in one sentence, where the archive is refused or is of some cells alone, where the study has
    experiments, and where it has files of its own: some of these are code, and belong where a user has read them.
    """
    with TemporaryDirectory() as folder, checked(file, room_in(Path(folder))) as archive:
        study = Path(folder) / "study.yaml"
        archive.copy(_study_of(archive), study)
        results = Path(folder) / "results.parquet"
        archive.copy(_results_of(archive), results)
        return FinishedStudy(read(study), load(results))


def _study_of(archive: Archive) -> str:
    if not archive.provenance.study:
        raise UserError(f"{archive.path}: an archive of some cells, without their study")
    study = f"{PROJECT}/{archive.provenance.study}"
    others = [name for name in archive.members if name.startswith((f"{PROJECT}/", f"{OUTSIDE}/")) and name != study]
    if others:
        raise UserError(f"{archive.path}: its study has files of its own, such as {others[0]}: see fedgrid open")
    return study


def _results_of(archive: Archive) -> str:
    tables = [name for name in archive.members if Path(name).match(f"{RESULTS}/*/results.parquet")]
    if len(tables) != 1:
        raise UserError(f"{archive.path}: its study has experiments, and no single table")
    return tables[0]
