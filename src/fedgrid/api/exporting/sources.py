"""The results that are exported: of a folder, or of what is finished of a study."""

from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.analysis.pages.partial import absent_from
from fedgrid.analysis.scores import collect
from fedgrid.analysis.scores.results import Results, load
from fedgrid.api.results import FILE
from fedgrid.errors import UserError
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.planned_study import Study


def load_results_below(folder: Path) -> dict[str, Results]:
    """The results in a folder, or in the folders of the experiments below it, by their names there.

    Raises UserError where there are none.
    """
    files = [folder / FILE] if (folder / FILE).is_file() else sorted(folder.glob(f"*/{FILE}"))
    if not files:
        raise UserError(f"{folder}: no run has made results there; a study that is not finished goes by --configfile")
    return {file.parent.relative_to(folder).as_posix(): load(file) for file in files}


def collect_finished_results(study: Study) -> dict[str, Results]:
    """What is finished of each experiment of a study, by its folder; UserError where nothing is."""
    absent, finished = absent_from(study), {}
    with TemporaryDirectory() as temporary:
        for experiment in study.experiments:
            if any(cell.key not in absent for cell in experiment.cells):
                file = Path(temporary) / FILE
                collect.write(manifest.content(study, experiment), file, absent)
                finished[experiment.id or "."] = load(file)
    if not finished:
        raise UserError(f"no cell of {study.name} is finished yet, so there is nothing to export")
    return finished
