"""``fedgrid plan``: what studies need, what of it is there, and what is left on this machine: hours, memory, disk."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedgrid.api.study_file import DEFAULT, read_study
from fedgrid.cli.other_code import other_code_lines
from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.cli.phrases import counted, estimate
from fedgrid.cli.searches import search_lines
from fedgrid.cli.studies import add_choice
from fedgrid.errors import UserError, nearest, say
from fedgrid.grid.costs.forecast import Id, Prospect, Speed, Trial, id_of, prospects
from fedgrid.grid.costs.large_artifacts import files_to_come
from fedgrid.grid.costs.needs import Machine, Needs, needs_of
from fedgrid.grid.costs.spread import spread_of
from fedgrid.grid.earlier import other_rounds
from fedgrid.grid.plan import left_out
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.study.yaml_file import read
from fedgrid.jobs import gpus, machine, originals
from fedgrid.run.notices import missing_artifact_notices, missing_gpus

EXAMPLES = """
fedgrid plan
fedgrid plan --configfile config/mnist.yaml --cells
fedgrid plan --configfile config/papers/*.yaml --scale small
fedgrid plan --configfile config/papers/fedcosr.yaml --only table2,table3 --json
"""
HEADS = ("cells", "cached", "no data", "about", "MB memory", "MB disk")
TOTAL = "all, shared cells once"


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid plan` to the command line."""
    text = "which cells of studies are cached and which are to run, and about how many hours these take"
    plan = with_examples(commands, "plan", text, EXAMPLES)
    text = f"the studies (default: {DEFAULT})"
    plan.add_argument("--configfile", type=path, nargs="+", default=[DEFAULT], metavar="FILE", help=text)
    add_choice(plan)
    text = "cores of the run (default: those of this machine that may be used)"
    plan.add_argument("--cores", type=int, metavar="N", help=text)
    form = plan.add_mutually_exclusive_group()
    form.add_argument("--cells", action="store_true", help="list every cell")
    form.add_argument("--json", action="store_true", help="print the plan as JSON")
    plan.set_defaults(call=_plan)


def measure_speeds(trials: list[Trial]) -> list[Speed]:
    """What a core of this machine trains and evaluates in a second."""
    from fedgrid.jobs.calibration import speeds  # it imports torch, which takes seconds

    return speeds(trials)


def model_sizes(trials: list[Trial]) -> list[int]:
    """The numbers in a model."""
    from fedgrid.jobs import calibration  # it imports torch, which takes seconds

    return calibration.sizes(trials)


def _plan(arguments: argparse.Namespace) -> int:
    began = time.perf_counter()
    studies = _studies(arguments)
    for study in studies:
        originals.say_notices(study)
        for notice in study.notices:
            say(f"fedgrid: {notice}", sys.stderr)
    for shortage in filter(None, dict.fromkeys(map(missing_gpus, studies))):
        say(f"fedgrid: {shortage}; these cells have to be computed elsewhere", sys.stderr)
    forecast = prospects(studies, measure_speeds, _on_gpu)
    on = _machine(arguments.cores, studies)
    took = time.perf_counter() - began
    if arguments.json:
        print(json.dumps(_values(studies, forecast, on, took), indent=1, ensure_ascii=False))
        return 0
    plain = len(studies) == 1 and not any(entry.id for entry in studies[0].experiments)
    print("\n".join(_rows(studies[0], forecast) if plain else _table(studies, forecast, on)))
    if arguments.cells:
        print("\n".join(map(_cell_line, forecast.values())))
    total = needs_of(forecast.values(), on)
    name = studies[0].name if plain else "all"
    print(f"{name}: {counted(total.cells, 'cell')}, {total.cached:,} cached, {total.to_run:,} to run")
    undone = {p.cell.key: p.cell for p in forecast.values() if not p.done and not p.cell.pending}
    lines = [*search_lines(studies), _outlook(total, forecast.values(), on, took)]
    lines += [*_outlook_of_artifacts(studies), *other_code_lines(studies)]
    lines += [line for study in studies for line in left_out.left_out_sentences(study)]
    print("\n".join([*lines, *_beside_cached(undone.values())]))
    return 0


def _beside_cached(cells: Collection[Cell]) -> Iterator[str]:
    """What else there is of cells to be trained: results with another number of rounds, or without some artifacts."""
    yield from other_rounds.other_rounds_sentences(cell for cell in cells if not cell.lacks_artifacts)
    yield from missing_artifact_notices(cells)


def _studies(arguments: argparse.Namespace) -> list[Study]:
    """The studies of all files; of several, `--only` chooses what each has, and mistakes name their file."""
    files: list[Path] = arguments.configfile
    if len(files) == 1:
        return [read_study(files[0], arguments.scale, arguments.only)]
    only = {file: arguments.only for file in files}
    if arguments.only:
        only = _only(files, [name.strip() for name in arguments.only.split(",")])
    return [_named(file, arguments.scale, only[file]) for file in only]


def _only(files: Iterable[Path], names: list[str]) -> dict[Path, str]:
    """By file, those of the experiments `names` for that it has; files without any are left out."""
    experiments_of = {file: read(file).get("experiments") for file in files}
    known = {file: [*experiments] for file, experiments in experiments_of.items() if isinstance(experiments, dict)}
    for name in names:
        if not any(name in experiments for experiments in known.values()):
            every = dict.fromkeys(name for experiments in known.values() for name in experiments)
            raise UserError(f"only: no study has an experiment '{name}'; {nearest(name, every)}")
    chosen = {file: [name for name in names if name in experiments] for file, experiments in known.items()}
    return {file: ",".join(some) for file, some in chosen.items() if some}


def _named(file: Path, scale: str | None, only: str | None) -> Study:
    try:
        return read_study(file, scale, only)
    except UserError as error:
        raise error if str(file) in str(error) else UserError(f"{file}: {error}") from error


def _of(cells: Iterable[Cell], forecast: Mapping[Id, Prospect]) -> dict[Id, Prospect]:
    """The prospects of some cells, each once."""
    return {id_of(cell): forecast[id_of(cell)] for cell in cells}


def _rows(study: Study, forecast: Mapping[Id, Prospect]) -> list[str]:
    """A line for each row of a plain study, one for the cells of its searches, and one for each row of others."""
    (experiment,) = study.experiments
    groups = {label: [cell for cell in study.cells if cell.row.label == label] for label in study.rows}
    groups |= {"search": experiment.trials} if experiment.trials else {}
    width, lines = max(map(len, [*groups, *(row.label for row in experiment.external)])), []
    for label, cells in groups.items():
        done = [p.done for p in _of(cells, forecast).values()]
        lines.append(f"{label:{width}}  {sum(done):4} cached  {len(done) - sum(done):4} to run")
    lines += [f"{row.label:{width}}  external results, {row.origin}" for row in experiment.external]
    return lines


def _table(studies: list[Study], forecast: Mapping[Id, Prospect], on: Machine) -> list[str]:
    """A line for each experiment and a total for each study, and below them what is missing."""
    width = max(len(TOTAL), *(len(study.name_of(experiment)) for study in studies for experiment in study.experiments))
    lines = ["  ".join([" " * width, *HEADS])]
    for study in studies:
        for experiment in study.experiments:
            needs = needs_of(_of(experiment.every_cell, forecast).values(), on)
            lines.append(_line(f"{study.name_of(experiment):{width}}", needs))
        if len(study.experiments) > 1:
            lines.append(_line(f"{TOTAL:>{width}}", needs_of(_of(study.by_key.values(), forecast).values(), on)))
        lines.append("")
    return lines + _missing_data(studies, forecast)


def _cell_line(prospect: Prospect) -> str:
    """A cell by its row, data, heterogeneity and seed, whether it is cached, and its file."""
    cell = prospect.cell
    where = "its settings wait for a search" if cell.pending else cell.file
    return f"{'cached' if prospect.done else 'to run'}  {cell.description}  {where}"


def _line(name: str, needs: Needs) -> str:
    numbers = [f"{needs.cells:,}", f"{needs.cached:,}", f"{needs.without_data:,}"]
    time = "unknown" if needs.unknown and not needs.hours else estimate(3600 * needs.hours)
    numbers += [time, f"{needs.memory:,.0f}", _rounded(needs.disk)]
    return "  ".join([name, *(f"{number:>{len(head)}}" for number, head in zip(numbers, HEADS, strict=True))])


def _missing_data(studies: list[Study], forecast: Mapping[Id, Prospect]) -> list[str]:
    """Why experiments and data are unavailable, with the number of cells that need them."""
    lines = [
        f"{study.name_of(experiment)} lacks: {experiment.about.lacks}"
        for study in studies
        for experiment in study.experiments
        if experiment.about.lacks
    ]
    reasons = Counter(prospect.unavailable for prospect in forecast.values() if prospect.unavailable)
    lines += [f"{number:,} cells lack data and are not in the estimates: {why}" for why, number in reasons.items()]
    return [*lines, ""] if lines else []


def _outlook(needs: Needs, forecast: Collection[Prospect], on: Machine, took: float) -> str:
    """Time and how sure it is, memory and disk in a line."""
    planned = f"planned in {took:.1f} s"
    without_time = f"the time of {counted(needs.unknown, 'GPU cell')} is unknown until one has been measured"
    spread = spread_of(forecast)
    if not spread:
        return f"left: {without_time if needs.unknown else 'nothing'}; {planned}"
    beside = f"{on.cores} cores, a cell on each" if on.cores > 1 else "1 core"
    hours = [f"{_rounded(needs.core_hours)} core-hours"]
    hours += [f"{_rounded(needs.gpu_hours)} GPU-hours"] if needs.gpu_hours else []
    parts = [
        f"about {estimate(3600 * needs.hours)} on {beside} ({', '.join(hours)})",
        f"8 of 10 earlier cells took {spread.low:.1f} to {spread.high:.1f} times their estimate",
        *([without_time] if needs.unknown else []),
        f"{f'{needs.measured:,} of these cells estimated from finished ones, ' if needs.measured else ''}"
        f"largest cell about {needs.memory:,.0f} MB, results about {_rounded(needs.disk)} MB",
        planned,
    ]
    return f"left: {'; '.join(parts)}"


def _on_gpu(study: Study) -> bool:
    """Whether the cells of a study are computed on a GPU."""
    device = study.compute.device
    return device.startswith("cuda") or (device == "auto" and bool(gpus.cards()))


def _machine(cores: int | None, studies: Iterable[Study]) -> Machine:
    """Where the studies run: on so many `cores` or those of this machine; a GPU that is not here counts as one."""
    if cores is not None and cores < 1:
        raise UserError(f"--cores: must be at least 1, got {cores}")
    share = min(gpus.cells_on_a_gpu(study.compute) for study in studies)
    return Machine(cores or machine.cores(), gpus.gpu_slots(share) or share, share)


def _outlook_of_artifacts(studies: list[Study]) -> Iterator[str]:
    """A line where cells to come keep their models, and one where they keep their states."""
    for kind, name in (("models", "models"), ("state", "states")):
        files = files_to_come(kind, studies, model_sizes)
        if files.cells:
            size = f"{files.size / 1e9:.1f} GB" if files.size >= 1e9 else f"{_rounded(files.size / 1e6)} MB"
            more = f", and what {' and '.join(files.carriers)} carries" if files.carriers else ""
            yield f"{name} of {counted(files.cells, 'cell')}: up to {size}{more}"


def _rounded(number: float) -> str:
    """A number of an estimate in two digits, or whole."""
    if 0 < number < 0.01:
        return "<0.01"
    return f"{number:.2g}" if number < 9.5 else f"{number:,.0f}"


def _values(studies: list[Study], forecast: Mapping[Id, Prospect], on: Machine, took: float) -> dict[str, Any]:
    """All that the table says, unrounded."""
    spread = spread_of(forecast.values())
    return {
        "studies": [
            {
                "name": study.name,
                "scale": study.scale,
                "experiments": [_experiment(experiment, forecast, on) for experiment in study.experiments],
                "all": asdict(needs_of(_of(study.by_key.values(), forecast).values(), on)),
            }
            for study in studies
        ],
        "all": asdict(needs_of(forecast.values(), on)),
        "cores": on.cores,
        "times_estimate": spread and asdict(spread),
        "seconds": took,
    }


def _experiment(experiment: Experiment, forecast: Mapping[Id, Prospect], on: Machine) -> dict[str, Any]:
    prospects_of_it = _of(experiment.every_cell, forecast)
    reasons = Counter(prospect.unavailable for prospect in prospects_of_it.values() if prospect.unavailable)
    return {
        "id": experiment.id,
        "lacks": experiment.about.lacks,
        **asdict(needs_of(prospects_of_it.values(), on)),
        "data": dict(reasons),
    }
