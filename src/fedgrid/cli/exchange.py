"""``fedgrid export | bundle | open``: results for other programs, and a study as one archive."""

import argparse
import sys
from collections import Counter
from pathlib import Path
from shlex import quote

from fedgrid.cli.parsing import FILE, RESULTS, STUDY, command, file_of, flag, option, path, study_of, utf8
from fedgrid.cli.phrases import module_names
from fedgrid.errors import UserError, say, say_notice
from fedgrid.files import check_writable
from fedgrid.quantities import counted

TARGETS = ("tensorboard", "mlflow", "wandb-offline", "csv", "xlsx")


@command(
    option(
        "results RESULTS",
        "a study's results, such as results/digits (default: what is finished of the study)",
        nargs="?",
        type=path,
    ),
    option("--to", "the format", choices=TARGETS),
    option("--out FOLDER", "where to write it (default: export/FORMAT in the folder of the results)", type=path),
    flag("--follow", "keep exporting every 2 seconds while a run is active, and stop when it ends"),
    *STUDY,
)
def export(arguments: argparse.Namespace) -> None:
    """Curves for TensorBoard, MLflow or Weights & Biases, tables for a spreadsheet.

    fedgrid export results/digits --to tensorboard
    fedgrid export results/digits --to xlsx --out tables
    fedgrid export --configfile config/mnist.yaml --to mlflow
    fedgrid export --to tensorboard --follow
    """
    if not arguments.to:
        raise UserError(f"--to: name a format: {', '.join(TARGETS)}")
    from fedgrid.api.exporting import targets  # torch and pandas take seconds to import

    if arguments.follow:
        _follow(arguments)
        return
    if arguments.results:
        results, folder = targets.load_results_below(arguments.results), arguments.results
    else:
        study = study_of(arguments)
        results, folder = targets.collect_finished_results(study), study.folder
    folder = _out(arguments, folder)
    if write := targets.SPREADSHEETS.get(arguments.to):
        files = [file for name, part in results.items() for file in write(part, folder / name)]
        print(f"{counted(len(files), 'file')} in {folder}")
        return
    tracker = targets.TRACKERS[arguments.to](folder)
    numbers = [targets.track(part, tracker, name) for name, part in results.items()]
    written, earlier = map(sum, zip(*numbers, strict=True))
    there = f", {earlier:,} are there already" if earlier else ""
    print(f"{counted(written, 'run')} written{there}: {tracker.hint}")


def _out(arguments: argparse.Namespace, folder: Path) -> Path:
    out: Path = arguments.out or folder / "export" / arguments.to
    check_writable(out, "--out")
    return out


def _follow(arguments: argparse.Namespace) -> None:
    from fedgrid.api.exporting.following import follow
    from fedgrid.api.exporting.targets import TRACKERS

    if arguments.to not in TRACKERS:
        raise UserError(f"--follow: {arguments.to} is written once; {', '.join(TRACKERS)} can follow a run")
    if arguments.results:
        advice = "name the study with --configfile instead"
        raise UserError(f"--follow: a results folder is only complete after a run; {advice}")
    study = study_of(arguments)
    tracker = TRACKERS[arguments.to](_out(arguments, study.folder))
    say(tracker.hint, sys.stdout)
    for line in follow(study, tracker):
        say(line, sys.stdout)


@command(
    FILE,
    option("--out FILE", "default: the study's name with .zip", type=path),
    flag("--without-models", "leave out models and states of clients"),
    option("--cells FILE", "only the cells that a list of fedgrid plan --missing names, for fedgrid merge", type=path),
    option("--license TEXT", "the license of the archive, for its description", type=utf8, default=""),
    *STUDY,
)
def bundle(arguments: argparse.Namespace) -> None:
    """Put a study's page, tables, figures, results, study and code digests into one archive, an RO-Crate.

    fedgrid bundle
    fedgrid bundle config/papers/fedcosr.yaml --scale small --out fedcosr.zip
    fedgrid bundle --without-models --license CC-BY-4.0
    fedgrid bundle --cells todo-1.txt
    """
    from fedgrid.api.archive.contents import client_data_in_artifacts, finished_cells
    from fedgrid.api.archive.writing import write_archive
    from fedgrid.api.cell_lists import listed_cells

    study = study_of(arguments)
    keys = [cell.key for cell in listed_cells(arguments.cells, study)] if arguments.cells else None
    name = f"{study.folder.name}-{arguments.cells.stem}" if arguments.cells else study.folder.name
    out: Path = arguments.out or Path(f"{name}.zip")
    if not arguments.without_models:
        for contents, number in client_data_in_artifacts(finished_cells(study, keys)).items():
            say_notice(f"the archive has {counted(number, 'file')} of {contents}; --without-models leaves them out")
    number = write_archive(study, file_of(arguments), out, not arguments.without_models, arguments.license, keys)
    print(f"{out}: {counted(number, 'file')}, {out.stat().st_size / 1e6:,.1f} MB")


@command(option("archive ARCHIVE", "a file of fedgrid bundle", type=path), RESULTS)
def open_(arguments: argparse.Namespace) -> None:
    """Unpack an archive into a store, so that a run has nothing left to train; existing files are kept.

    fedgrid open digits.zip
    fedgrid open digits.zip --results results
    """
    from fedgrid.api.archive.names import is_code
    from fedgrid.api.archive.opening import KEPT, WRITTEN, open_archive

    opened = open_archive(arguments.archive, arguments.results)
    provenance = opened.provenance
    numbers = sorted(Counter(opened.outcomes.values()).items())
    print(", ".join(f"{counted(number, 'file')} {outcome}" for outcome, number in numbers))
    for outcome, what, note in (
        (WRITTEN, "written  {}", ", which is code: read it before you run it"),
        (KEPT, "kept     {}, which differs from the archive's", ", and is code: a run uses yours"),
    ):
        for file in (file for name, file in opened.project.items() if opened.outcomes[name] == outcome):
            print(f"{what.format(file)}{note if is_code(file.name) else ''}")
    for name in opened.outside:
        print(f"left     {name}, which is in the archive alone: put it where the study names it")
    if differing := provenance.differing():
        concerned = f"{max(differing.values()):,} of {counted(len(provenance.cells), 'cell')}"
        edited = module_names(sorted(differing))
        print(f"the code here differs from that of {concerned} ({edited}): a run trains these again")
    if arguments.results != Path(provenance.results):
        print(f"the study's results are in {provenance.results}: set 'results: {arguments.results}' in it")
    scale = "" if provenance.scale == "full" else f" --scale {quote(provenance.scale)}"
    print(f"Next: fedgrid go {quote(provenance.study or 'STUDY')}{scale}")
