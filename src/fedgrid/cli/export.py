"""``fedgrid export``: curves and tables for other programs, written by their own libraries."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.cli.phrases import counted
from fedgrid.cli.studies import add_configfile, study_of
from fedgrid.errors import UserError, say
from fedgrid.files import check_writable

if TYPE_CHECKING:
    from fedgrid.analysis.scores.results import Results

TARGETS = ("tensorboard", "mlflow", "wandb-offline", "csv", "xlsx")
EXAMPLES = """
fedgrid export results/digits --to tensorboard
fedgrid export results/digits --to xlsx --out tables
fedgrid export --configfile config/mnist.yaml --to mlflow
fedgrid export --to tensorboard --follow
"""


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid export` to the command line."""
    text = "curves for TensorBoard, MLflow or Weights & Biases, tables for a spreadsheet"
    export = with_examples(commands, "export", text, EXAMPLES)
    text = "a study's results, such as results/digits (default: what is finished of the study)"
    export.add_argument("results", nargs="?", type=path, metavar="RESULTS", help=text)
    export.add_argument("--to", required=True, choices=TARGETS, help="the format")
    text = "where to write it (default: export/FORMAT in the folder of the results)"
    export.add_argument("--out", type=path, metavar="FOLDER", help=text)
    text = "keep exporting every 2 seconds while a run is active, and stop when it ends"
    export.add_argument("--follow", action="store_true", help=text)
    add_configfile(export)
    export.set_defaults(call=_export)


def _export(arguments: argparse.Namespace) -> int:
    from fedgrid.api.exporting.targets import SPREADSHEETS, TRACKERS, track  # torch and pandas take seconds to import

    if arguments.follow:
        _check_following(arguments, TRACKERS)
        return _follow(arguments)
    results, folder = _source(arguments)
    if arguments.to in SPREADSHEETS:
        files = [file for name, part in results.items() for file in SPREADSHEETS[arguments.to](part, folder / name)]
        print(f"{counted(len(files), 'file')} in {folder}")
        return 0
    tracker = TRACKERS[arguments.to](folder)
    numbers = [track(part, tracker, name) for name, part in results.items()]
    written, earlier = (sum(column) for column in zip(*numbers, strict=True))
    there = f", {earlier:,} are there already" if earlier else ""
    print(f"{counted(written, 'run')} written{there}: {tracker.hint}")
    return 0


def _check_following(arguments: argparse.Namespace, trackers: Iterable[str]) -> None:
    if arguments.to not in trackers:
        raise UserError(f"--follow: {arguments.to} is written once; {', '.join(trackers)} can follow a run")
    if arguments.results:
        raise UserError(
            "--follow: a results folder is only complete after a run; name the study with --configfile instead"
        )


def _source(arguments: argparse.Namespace) -> tuple[Mapping[str, "Results"], Path]:
    """Results by the folders of experiments, and where they are written to."""
    from fedgrid.api.exporting.sources import collect_finished_results, load_results_below

    if arguments.results:
        results, folder = load_results_below(arguments.results), arguments.results
    else:
        study = study_of(arguments)
        results, folder = collect_finished_results(study), study.folder
    return results, _out(arguments, folder)


def _out(arguments: argparse.Namespace, folder: Path) -> Path:
    out: Path = arguments.out or folder / "export" / arguments.to
    check_writable(out, "--out")
    return out


def _follow(arguments: argparse.Namespace) -> int:
    from fedgrid.api.exporting.following import follow
    from fedgrid.api.exporting.targets import TRACKERS

    study = study_of(arguments)
    tracker = TRACKERS[arguments.to](_out(arguments, study.folder))
    say(tracker.hint, sys.stdout)
    for line in follow(study, tracker):
        say(line, sys.stdout)
    return 0
