"""Where results can be exported to, by the names that the command line has for it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from fedgrid.analysis.scores.results import Results
from fedgrid.api.exporting import csv, xlsx
from fedgrid.api.exporting.cell_runs import endings_of, points_of, runs_of
from fedgrid.api.exporting.mlflow import MLflow
from fedgrid.api.exporting.runs import Tracker
from fedgrid.api.exporting.tensorboard import TensorBoard
from fedgrid.api.exporting.wandb import WandbOffline

TRACKERS: Mapping[str, Callable[[Path], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb-offline": WandbOffline,
}
"Programs that show one run per cell."
SPREADSHEETS: Mapping[str, Callable[[Results, Path], list[Path]]] = {"csv": csv.write, "xlsx": xlsx.write}
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
