"""``fedgrid plan``: what studies need, what of it is there, and what is left on this machine: hours, memory, disk."""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedgrid.cli.adopt import adoptable
from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.cli.studies import DEFAULT, add_choice, read_study
from fedgrid.errors import UserError, nearest, say
from fedgrid.grid.costs.forecast import Id, Prospect, Speed, Trial, id_of, prospects
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.study.yaml_file import read
from fedgrid.jobs import originals
from fedgrid.run.remarks import gpus_lacking

EXAMPLES = """
fedgrid plan
fedgrid plan --configfile config/mnist.yaml --cells
fedgrid plan --configfile config/papers/*.yaml --scale small
fedgrid plan --configfile config/papers/fedcosr.yaml --only table2,table3 --json
"""
HEADS = ("cells", "cached", "no data", "about hours", "MB memory", "MB disk")
TOTAL = "all, shared cells once"


@dataclass(frozen=True)
class Needs:
    """What some cells need, each of them once."""

    cells: int
    cached: int
    without_data: int
    "Cells that cannot be trained here; they count in nothing below."
    measured: int
    "Cells whose time and memory finished ones like them say."
    hours: float
    "Left on this machine with a cell on each core."
    memory: float
    "MB of the largest cell that is left."
    disk: float
    "MB of the results to come."

    @property
    def left(self) -> int:
        """Cells without results."""
        return self.cells - self.cached


def add_commands(commands: Commands) -> None:
    text = "which cells of studies are cached and which are to run, and about how many hours these take"
    plan = with_examples(commands, "plan", text, EXAMPLES)
    text = f"the studies (default: {DEFAULT})"
    plan.add_argument("--configfile", type=path, nargs="+", default=[DEFAULT], metavar="FILE", help=text)
    add_choice(plan)
    form = plan.add_mutually_exclusive_group()
    form.add_argument("--cells", action="store_true", help="list every cell")
    form.add_argument("--json", action="store_true", help="the same for machines")
    plan.set_defaults(call=_plan)


def measured(trials: list[Trial]) -> list[Speed]:
    """What a core of this machine trains and evaluates in a second."""
    from fedgrid.jobs.calibration import speeds  # it imports torch, which takes seconds

    return speeds(trials)


def _plan(arguments: argparse.Namespace) -> int:
    began = time.perf_counter()
    studies = _studies(arguments)
    for study in studies:
        originals.say_notices(study)
        for notice in study.notices:
            say(f"fedgrid: {notice}", sys.stderr)
    for shortage in filter(None, dict.fromkeys(map(gpus_lacking, studies))):
        say(f"fedgrid: {shortage}; these cells have to be computed elsewhere", sys.stderr)
    found = prospects(studies, measured)
    took = time.perf_counter() - began
    if arguments.json:
        print(json.dumps(_values(studies, found, took), indent=1, ensure_ascii=False))
        return 0
    plain = len(studies) == 1 and not any(one.id for one in studies[0].experiments)
    print("\n".join(_rows(studies[0], found) if plain else _table(studies, found)))
    if arguments.cells:
        print("\n".join(f"{'cached' if one.done else 'to run'}  {one.cell.file}" for one in found.values()))
    total = _needs(found.values())
    name = studies[0].name if plain else "all"
    print(f"{name}: {total.cells:,} cells, {total.cached:,} cached, {total.left:,} to run")
    print("\n".join([_outlook(total, took), *adoptable(studies)]))
    return 0


def _studies(arguments: argparse.Namespace) -> list[Study]:
    """The studies of all files; of several, `--only` chooses what each has, and a mistake is told with its file."""
    files: list[Path] = arguments.configfile
    if len(files) == 1:
        return [read_study(files[0], arguments.scale, arguments.only)]
    only = {file: arguments.only for file in files}
    if arguments.only:
        only = _only(files, [name.strip() for name in arguments.only.split(",")])
    return [_named(file, arguments.scale, only[file]) for file in only]


def _only(files: Iterable[Path], asked: list[str]) -> dict[Path, str]:
    """By file, those of the experiments `asked` for that it has; files without any are left out."""
    experiments_of = {file: read(file).get("experiments") for file in files}
    known = {file: [*experiments] for file, experiments in experiments_of.items() if isinstance(experiments, dict)}
    for name in asked:
        if not any(name in experiments for experiments in known.values()):
            every = dict.fromkeys(name for experiments in known.values() for name in experiments)
            raise UserError(f"only: no study has an experiment '{name}'; {nearest(name, every)}")
    return {f: ",".join(one for one in asked if one in own) for f, own in known.items() if {*asked} & {*own}}


def _named(file: Path, scale: str | None, only: str | None) -> Study:
    try:
        return read_study(file, scale, only)
    except UserError as error:
        raise error if str(file) in str(error) else UserError(f"{file}: {error}") from error


def _needs(found: Iterable[Prospect]) -> Needs:
    found = list(found)
    return Needs(
        cells=len(found),
        cached=sum(one.done for one in found),
        without_data=sum(bool(one.lacking) for one in found),
        measured=sum(one.measured for one in found),
        hours=sum(one.seconds for one in found) / 3600 / (os.cpu_count() or 1),
        memory=max((one.memory for one in found), default=0.0),
        disk=sum(one.size for one in found) / 1e6,
    )


def _of(cells: Iterable[Cell], found: Mapping[Id, Prospect]) -> dict[Id, Prospect]:
    """The prospects of some cells, each once."""
    return {id_of(cell): found[id_of(cell)] for cell in cells}


def _rows(study: Study, found: Mapping[Id, Prospect]) -> list[str]:
    """A line for each row of a plain study."""
    width, lines = max(map(len, study.rows)), []
    for label in study.rows:
        needs = _needs(_of((cell for cell in study.cells if cell.row.label == label), found).values())
        lines.append(f"{label:{width}}  {needs.cached:4} cached  {needs.left:4} to run")
    return lines


def _table(studies: list[Study], found: Mapping[Id, Prospect]) -> list[str]:
    """A line for each experiment and a total for each study, and below them what is lacking."""
    width = max(len(TOTAL), *(len(study.name_of(one)) for study in studies for one in study.experiments))
    lines = ["  ".join([" " * width, *HEADS])]
    for study in studies:
        for one in study.experiments:
            lines.append(_line(f"{study.name_of(one):{width}}", _needs(_of(one.cells, found).values())))
        if len(study.experiments) > 1:
            lines.append(_line(f"{TOTAL:>{width}}", _needs(_of(study.cells, found).values())))
        lines.append("")
    return lines + _lacking(studies, found)


def _line(name: str, needs: Needs) -> str:
    numbers = [f"{needs.cells:,}", f"{needs.cached:,}", f"{needs.without_data:,}"]
    numbers += [_rounded(needs.hours), f"{needs.memory:,.0f}", _rounded(needs.disk)]
    return "  ".join([name, *(f"{number:>{len(head)}}" for number, head in zip(numbers, HEADS, strict=True))])


def _lacking(studies: list[Study], found: Mapping[Id, Prospect]) -> list[str]:
    """What experiments lack by their own account, and why data cannot be had, with the cells that need them."""
    said = [
        f"{study.name_of(one)} lacks: {one.about.lacks}"
        for study in studies
        for one in study.experiments
        if one.about.lacks
    ]
    reasons = Counter(one.lacking for one in found.values() if one.lacking)
    said += [f"{number:,} cells lack data and are in no estimate: {why}" for why, number in reasons.items()]
    return [*said, ""] if said else []


def _outlook(needs: Needs, took: float) -> str:
    """Hours, memory and disk in a line."""
    cores = os.cpu_count() or 1
    known = f"{needs.measured:,} of these cells measured on finished ones, " if needs.measured else ""
    beside = f"{cores} cores, a cell on each" if cores > 1 else "1 core"
    hours = f"about {_rounded(needs.hours)} hours on {beside}" if needs.hours else "0 hours"
    sizes = f"largest cell about {needs.memory:,.0f} MB, results about {_rounded(needs.disk)} MB"
    return f"left: {hours}; {known}{sizes}; planned in {took:.1f} s"


def _rounded(number: float) -> str:
    """A number of an estimate in two digits, or whole; no less than 0.01 but for nothing at all."""
    return "0" if not number else f"{max(number, 0.01):.2g}" if number < 9.5 else f"{number:,.0f}"


def _values(studies: list[Study], found: Mapping[Id, Prospect], took: float) -> dict[str, Any]:
    """All that the table says, unrounded."""
    return {
        "studies": [
            {
                "name": study.name,
                "scale": study.scale,
                "experiments": [_experiment(one, found) for one in study.experiments],
                "all": asdict(_needs(_of(study.cells, found).values())),
            }
            for study in studies
        ],
        "all": asdict(_needs(found.values())),
        "cores": os.cpu_count() or 1,
        "seconds": took,
    }


def _experiment(one: Experiment, found: Mapping[Id, Prospect]) -> dict[str, Any]:
    own = _of(one.cells, found)
    reasons = Counter(prospect.lacking for prospect in own.values() if prospect.lacking)
    return {"id": one.id, "lacks": one.about.lacks, **asdict(_needs(own.values())), "data": dict(reasons)}
