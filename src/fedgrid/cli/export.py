"""``fedgrid export``: curves and tables for other programs, written by their own libraries."""

import argparse
import sys
from pathlib import Path

from fedgrid.cli.parsing import STUDY, command, flag, option, path, study_of
from fedgrid.cli.phrases import counted
from fedgrid.errors import UserError, say
from fedgrid.files import check_writable

TARGETS = ("tensorboard", "mlflow", "wandb-offline", "csv", "xlsx")


@command(
    option(
        "results RESULTS",
        "a study's results, such as results/digits (default: what is finished of the study)",
        nargs="?",
        type=path,
    ),
    option("--to", "the format", required=True, choices=TARGETS),
    option("--out FOLDER", "where to write it (default: export/FORMAT in the folder of the results)", type=path),
    flag("--follow", "keep exporting every 2 seconds while a run is active, and stop when it ends"),
    *STUDY,
)
def export(arguments: argparse.Namespace) -> int:
    """Curves for TensorBoard, MLflow or Weights & Biases, tables for a spreadsheet.

    fedgrid export results/digits --to tensorboard
    fedgrid export results/digits --to xlsx --out tables
    fedgrid export --configfile config/mnist.yaml --to mlflow
    fedgrid export --to tensorboard --follow
    """
    from fedgrid.api.exporting import sources, targets  # torch and pandas take seconds to import

    if arguments.follow:
        _check_following(arguments, list(targets.TRACKERS))
        return _follow(arguments)
    if arguments.results:
        results, folder = sources.load_results_below(arguments.results), arguments.results
    else:
        study = study_of(arguments)
        results, folder = sources.collect_finished_results(study), study.folder
    folder = _out(arguments, folder)
    if arguments.to in targets.SPREADSHEETS:
        write = targets.SPREADSHEETS[arguments.to]
        files = [file for name, part in results.items() for file in write(part, folder / name)]
        print(f"{counted(len(files), 'file')} in {folder}")
        return 0
    tracker = targets.TRACKERS[arguments.to](folder)
    numbers = [targets.track(part, tracker, name) for name, part in results.items()]
    written, earlier = map(sum, zip(*numbers, strict=True))
    there = f", {earlier:,} are there already" if earlier else ""
    print(f"{counted(written, 'run')} written{there}: {tracker.hint}")
    return 0


def _out(arguments: argparse.Namespace, folder: Path) -> Path:
    out: Path = arguments.out or folder / "export" / arguments.to
    check_writable(out, "--out")
    return out


def _check_following(arguments: argparse.Namespace, trackers: list[str]) -> None:
    if arguments.to not in trackers:
        raise UserError(f"--follow: {arguments.to} is written once; {', '.join(trackers)} can follow a run")
    if arguments.results:
        raise UserError(
            "--follow: a results folder is only complete after a run; name the study with --configfile instead"
        )


def _follow(arguments: argparse.Namespace) -> int:
    from fedgrid.api.exporting.following import follow
    from fedgrid.api.exporting.targets import TRACKERS

    study = study_of(arguments)
    tracker = TRACKERS[arguments.to](_out(arguments, study.folder))
    say(tracker.hint, sys.stdout)
    for line in follow(study, tracker):
        say(line, sys.stdout)
    return 0
