"""``fedgrid status | logs | report | explain``: how far a study is, and what is behind a number."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from fedgrid.api.finding import file_of_key, looked_through, matching_cells, the_cell
from fedgrid.api.study_file import studies_here
from fedgrid.cli.parsing import CHOICE, FILE, STUDY, command, file_of, flag, option, path, study_of
from fedgrid.cli.phrases import other_code_lines, search_lines
from fedgrid.errors import UserError
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.choices import apply_choices
from fedgrid.grid.plan.manifest_model import UNAVAILABLE
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.quantities import duration
from fedgrid.run import cell_states
from fedgrid.run.cell_states import MARKS, State
from fedgrid.run.lock import StoreLock

EVERY = 2.0
"Seconds between two looks of `--watch`."
CONFIGFILE = (
    "the study (default: the first of config/study.yaml, the latest runs, config/**/*.yaml that has such a cell)"
)
HOME = "\x1b[H\x1b[J"
"Tells a terminal to go to its first line and to clear what follows."


@command(FILE, flag("--watch", "refresh every 2 seconds until nothing runs"), *STUDY)
def status(arguments: argparse.Namespace) -> None:
    """Done, running, queued and failed cells as a grid, one sign for each seed, and the time left.

    fedgrid status
    fedgrid status config/mnist.yaml --watch
    """
    study = study_of(arguments)
    planned, manifests = study, dict[str, Path]()
    while True:
        study = apply_choices(study)  # searches may have chosen since
        states_by_key = cell_states.read(study)
        for experiment in planned.experiments:  # what a manifest says is long; before there are results nobody asks
            name = planned.name_of(experiment)
            if name not in manifests and manifest.has_results(experiment.folder):
                manifests[name] = manifest.file(planned, experiment)
        remarks = {name: _remark_on_tables(file) for name, file in manifests.items()}
        text = "\n".join(_lines(study, states_by_key, remarks))
        print(f"{HOME if arguments.watch and sys.stdout.isatty() else ''}{text}", flush=True)
        if not arguments.watch or not any(state.name in ("running", "queued") for state in states_by_key.values()):
            return
        time.sleep(EVERY)


@command(FILE, *STUDY)
def report(arguments: argparse.Namespace) -> None:
    """Tables, figures and report of the cells that are finished, also while a run is going or after it failed.

    fedgrid report
    fedgrid report config/mnist.yaml
    """
    from fedgrid.analysis.pages import partial

    print(*partial.report_of(study_of(arguments), str(file_of(arguments))), sep="\n")


def _lines(study: Study, states_by_key: dict[str, State], remarks: dict[str, str]) -> list[str]:
    """The lines of one look; `remarks` are those on tables that were made, by the names of experiments in results."""
    counts = _counts(states_by_key.values())
    if study.has_experiments:
        lines = [*_experiments(study, states_by_key, remarks), counts]
    else:
        lines = [*_grid(study, states_by_key), counts + remarks.get(study.name_of(study.experiments[0]), "")]
    lines += [*search_lines([study]), *_times(study, states_by_key)]
    running = [cell for key, cell in study.by_key.items() if states_by_key[key].name == "running"]
    lines += [f"▶ {cell.description}: {states_by_key[cell.key].remark}" for cell in running]
    return lines + other_code_lines([study]) + cell_states.failures(study, states_by_key)


def _counts(states: Iterable[State]) -> str:
    counts = Counter(state.name for state in states)
    return ", ".join(f"{MARKS[name]} {counts[name]} {name}" for name in MARKS if counts[name] or name != UNAVAILABLE)


def _remark_on_tables(file: Path) -> str:
    """The end of a line on tables that the manifest asks for: empty unless they are out of date or damaged."""
    try:
        return f", tables {manifest.OUT_OF_DATE}" if manifest.tables_state(file) == manifest.OUT_OF_DATE else ""
    except UserError as error:
        return f", {error}"


def _experiments(study: Study, states_by_key: dict[str, State], remarks: dict[str, str]) -> Iterator[str]:
    """A line for each experiment: how many of its cells are in which state, and whether its tables are out of date."""
    width = max(len(experiment.id) for experiment in study.experiments)
    for experiment in study.experiments:
        cells = [states_by_key[key] for key in dict.fromkeys(cell.key for cell in experiment.every_cell)]
        remark = remarks.get(study.name_of(experiment), "")
        yield f"{experiment.id:{width}}  {_counts(cells) if cells else 'no cells'}{remark}"


def _grid(study: Study, states_by_key: dict[str, State]) -> Iterator[str]:
    """Rows by columns, with one sign for each seed."""
    columns = list(dict.fromkeys(map(_column, study.cells)))
    heads = [" ".join(column) for column in columns]
    width = max(map(len, study.rows))
    yield "  ".join([" " * width, *heads])
    marks: dict[tuple[str, ...], str] = {}
    for cell in study.cells:
        position = (cell.row.label, *_column(cell))
        marks[position] = marks.get(position, "") + MARKS[states_by_key[cell.key].name]
    for label in study.rows:
        signs = [f"{marks[label, *column]:{len(head)}}" for column, head in zip(columns, heads, strict=True)]
        yield "  ".join([f"{label:{width}}", *signs])


def _column(cell: Cell) -> tuple[str, str]:
    return cell.partition.data.label, cell.heterogeneity


def _times(study: Study, states_by_key: dict[str, State]) -> list[str]:
    """How long the run at work has been going, and how much is left by what finished cells took."""
    run, seconds_left = StoreLock(study.store).holder(), cell_states.seconds_left(study, states_by_key)
    parts = [f"running for {duration(time.time() - run.began)}"] if run else []
    if seconds_left:
        running = sum(state.name == "running" for state in states_by_key.values())
        beside = f", {running} cells at a time" if running > 1 else ""
        parts.append(f"about {duration(seconds_left)} left{beside}")
    return ["; ".join(parts)] if parts else []


@command(
    option("selection WORD", "the cell's key, or its method, data set, partition and seed (s0)", nargs="+"),
    option("--lines", "default: 20", type=int, default=20),
    option("--configfile", CONFIGFILE, type=path),
    *CHOICE,
)
def logs(arguments: argparse.Namespace) -> None:
    """Print the tail of a cell's log.

    fedgrid logs 3fa1b2c4
    fedgrid logs fedcosr s0
    fedgrid logs fedavg digits dirichlet 2 --lines 40
    """
    if arguments.lines < 1:
        raise UserError(f"--lines: must be at least 1, got {arguments.lines}")
    studies = studies_here(arguments.configfile, arguments.scale, arguments.only)
    searched, cells = looked_through(studies, lambda study: matching_cells(study, arguments.selection), "logs")
    study = searched[-1 if cells else 0][1]
    log = file_of_key(study.store, arguments.selection, "logs/cells/**/s*-{key}*.log")
    if log is None or any(cell.key.startswith(arguments.selection[0]) for cell in study.cells):
        cell = the_cell(study, arguments.selection, "logs")
        state, log = cell_states.read(study)[cell.key], cell.log
        print(f"{cell.description}: {state.name}{f', {state.remark}' if state.remark else ''}")
    print(f"log: {log}")
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        print("no log: the cell has not started, or its results come from elsewhere")
        return
    print(*lines[-arguments.lines :], sep="\n")


SELECTION = (
    "words that identify the number, or parts of them: experiment, row, data set, heterogeneity, seed; or the number "
    "itself, or a cell's key"
)
EXAMPLES = ('fedgrid explain FedCoSR "seed 0"', "fedgrid explain 96.38", "fedgrid explain 3fa1b2c4")


@command(
    option("selection WORD", SELECTION, nargs="*"),
    flag("--code", "list the modules that make the key, and those that do not"),
    option("--configfile", CONFIGFILE, type=path),
    *CHOICE,
)
def explain(arguments: argparse.Namespace) -> None:
    """The cells behind a number of a table: settings, state, scores and files.

    fedgrid explain FedCoSR pathological
    fedgrid explain fedcosr "seed 0" --configfile config/mnist.yaml
    fedgrid explain 96.38
    fedgrid explain 3fa1b2c4 --code
    fedgrid explain --configfile config/papers/fedcosr.yaml table2 FedCoSR CIFAR-10 "Dirichlet 0.1"
    """
    from fedgrid.api.explanation import explain as explained  # status needs none of it

    if not arguments.selection:
        raise UserError(f"name what to explain, by words of its table, the number or a key: {', '.join(EXAMPLES)}")
    studies = studies_here(arguments.configfile, arguments.scale, arguments.only)
    print("\n".join(explained(studies, arguments.selection, arguments.code)))
