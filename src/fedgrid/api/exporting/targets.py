"""Where results can be exported to, by the names that the command line has for it, and which results are exported."""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.analysis.pages.partial import absent_from
from fedgrid.analysis.scores.collect import collect
from fedgrid.analysis.scores.results import Results, load
from fedgrid.api.exporting import spreadsheets
from fedgrid.api.exporting.mlflow import MLflow
from fedgrid.api.exporting.runs import Tracker, endings_of, points_of, runs_of
from fedgrid.api.exporting.tensorboard import TensorBoard
from fedgrid.api.exporting.wandb import WandbOffline
from fedgrid.api.results import FILE
from fedgrid.errors import UserError
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.planned_study import Study

TRACKERS: Mapping[str, Callable[[Path], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb-offline": WandbOffline,
}
"Programs that show one run per cell."
SPREADSHEETS: Mapping[str, Callable[[Results, Path], list[Path]]] = {
    "csv": spreadsheets.write_csv,
    "xlsx": spreadsheets.write_xlsx,
}
"Files of tables."


def track(results: Results, tracker: Tracker, experiment: str = ".") -> tuple[int, int]:
    """Writes the run of every finished cell; returns how many were written, and how many were there already."""
    points, endings = points_of(results), endings_of(results)
    cells = [cell for cell in results.cells if cell.table_position in endings]
    written = 0
    for cell, run in zip(cells, runs_of(results, cells, experiment), strict=True):
        if writer := tracker.begin(run):
            writer.write(points[cell.table_position])
            writer.end(endings[cell.table_position])
            written += 1
    return written, len(cells) - written


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
                content = manifest.content(study, experiment).without(absent)
                finished[experiment.id or "."] = collect(content, Path(temporary) / FILE)
    if not finished:
        raise UserError(f"no cell of {study.name} is finished yet, so there is nothing to export")
    return finished
