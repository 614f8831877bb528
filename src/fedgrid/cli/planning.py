"""``fedgrid plan``: what studies need, what of it is there, and what is left on this machine: hours, memory, disk."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from fedgrid.api.planning import Outlook, outlook, unavailable
from fedgrid.cli.missing import check_missing, print_missing
from fedgrid.cli.parsing import FILES, STUDIES, command, files_of, flag, option
from fedgrid.cli.phrases import other_code_lines, search_lines
from fedgrid.errors import say_notice
from fedgrid.grid.costs.large_artifacts import STACKS
from fedgrid.grid.costs.needs import Needs
from fedgrid.grid.costs.spread import spread_of
from fedgrid.grid.earlier.other_rounds import other_rounds_sentences
from fedgrid.grid.plan.left_out import left_out_sentences
from fedgrid.grid.plan.planned_study import Experiment
from fedgrid.jobs import originals
from fedgrid.quantities import counted, estimate
from fedgrid.run.notices import missing_artifact_notices, missing_gpus

HEADS = ("cells", "cached", "no data", "about", "MB memory", "MB disk")
TOTAL = "all, shared cells once"


def _forms(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--cells", action="store_true", help="list every cell")
    forms.add_argument("--json", action="store_true", help="print the plan as JSON")


@command(
    FILES,
    *STUDIES,
    option("--cores N", "cores of the run (default: those of this machine that may be used)", type=int),
    flag("--missing", "list the cells without results, for others to compute with fedgrid go --cells"),
    option("--parts N", "write that list to N files, todo-1.txt and so on, of about the same time", type=int),
    _forms,
)
def plan(arguments: argparse.Namespace) -> None:
    """Which cells of studies are cached and which are to run, and about how many hours these take.

    fedgrid plan
    fedgrid plan config/mnist.yaml --cells
    fedgrid plan config/papers/*.yaml --scale small
    fedgrid plan config/papers/fedcosr.yaml --only table2,table3 --json
    fedgrid plan config/mnist.yaml --missing --parts 3
    """
    files = files_of(arguments)
    check_missing(arguments, files)
    planned = outlook(files, arguments.scale, arguments.only, arguments.cores)
    for study in planned.studies:
        originals.say_notices(study)
        for notice in study.notices:
            say_notice(notice)
    for shortage in filter(None, dict.fromkeys(map(missing_gpus, planned.studies))):
        say_notice(f"{shortage}; these cells have to be computed elsewhere")
    if arguments.missing:
        print_missing(planned, files[0], arguments.parts, arguments.json)
    elif arguments.json:
        print(json.dumps(_as_json(planned), indent=1, ensure_ascii=False))
    else:
        print("\n".join(_lines(planned, arguments.cells)))


def _lines(planned: Outlook, with_cells: bool) -> Iterator[str]:
    studies, total = planned.studies, planned.needs
    plain = len(studies) == 1 and not studies[0].has_experiments
    yield from _rows(planned) if plain else _table(planned)
    for prospect in planned.prospects.values() if with_cells else ():
        where = "its settings wait for a search" if prospect.cell.pending else prospect.cell.file
        yield f"{'cached' if prospect.done else 'to run'}  {prospect.cell.description}  {where}"
    name = studies[0].name if plain else "all"
    yield f"{name}: {counted(total.cells, 'cell')}, {total.cached:,} cached, {total.to_run:,} to run"
    yield from search_lines(studies)
    yield _left(planned)
    yield from _artifacts(planned)
    yield from other_code_lines(studies)
    for study in studies:
        yield from left_out_sentences(study)
    yield from other_rounds_sentences(cell for cell in planned.to_train if not cell.lacks_artifacts)
    yield from missing_artifact_notices(planned.to_train)


def _rows(planned: Outlook) -> Iterator[str]:
    """A line for each row of a plain study, one for the cells of its searches, and one for each row of others."""
    (study,) = planned.studies
    (experiment,) = study.experiments
    known = study.rows
    groups = {label: [cell for cell in study.cells if cell.row.label == label] for label in known}
    groups |= {"search": experiment.trials} if experiment.trials else {}
    width = max(map(len, [*groups, *(row.label for row in experiment.external)]))
    for label, cells in groups.items():
        needs, row = planned.needs_of(cells), known.get(label)
        own_title = f"  {row.title}" if row and _letters(row.title) != _letters(label) else ""
        yield f"{label:{width}}  {needs.cached:4} cached  {needs.to_run:4} to run{own_title}"
    for other in experiment.external:
        yield f"{other.label:{width}}  external results, {other.origin}"
    rows: dict[str, dict[str, None]] = {}
    for cell in study.cells:
        rows.setdefault(cell.key, {})[cell.row.label] = None
    for labels, number in Counter(tuple(of_cell) for of_cell in rows.values() if len(of_cell) > 1).items():
        yield f"{' and '.join(labels)} share {counted(number, 'cell')}: their settings come to the same"


def _letters(name: str) -> str:
    """A name without what tells titles and labels of the same row apart: "FedAvg-FT", "fedavg_ft"."""
    return "".join(filter(str.isalnum, name)).lower()


def _table(planned: Outlook) -> Iterator[str]:
    """A line for each experiment and a total for each study, and below them what is missing."""
    experiments = [(study, experiment) for study in planned.studies for experiment in study.experiments]
    width = max(len(TOTAL), *(len(study.name_of(experiment)) for study, experiment in experiments))
    yield "  ".join([" " * width, *HEADS])
    for study in planned.studies:
        for experiment in study.experiments:
            yield _line(f"{study.name_of(experiment):{width}}", planned.needs_of(experiment.every_cell))
        if len(study.experiments) > 1:
            yield _line(f"{TOTAL:>{width}}", planned.needs_of(study.by_key.values()))
        yield ""
    lacking = [f"{s.name_of(e)} lacks: {e.about.lacks}" for s, e in experiments if e.about.lacks]
    reasons = unavailable(planned.prospects.values()).items()
    lacking += [f"{number:,} cells lack data and are not in the estimates: {why}" for why, number in reasons]
    yield from [*lacking, ""] if lacking else []


def _line(name: str, needs: Needs) -> str:
    time = "unknown" if needs.unknown and not needs.hours else estimate(3600 * needs.hours)
    counts = [f"{number:,}" for number in (needs.cells, needs.cached, needs.without_data)]
    columns = [*counts, time, f"{needs.memory:,.0f}", _rounded(needs.disk)]
    return "  ".join([name, *(f"{text:>{len(head)}}" for text, head in zip(columns, HEADS, strict=True))])


def _left(planned: Outlook) -> str:
    """Time and how sure it is, memory and disk in a line."""
    needs, cores, spread = planned.needs, planned.machine.cores, spread_of(planned.prospects.values())
    took = f"planned in {planned.seconds:.1f} s"
    without_time = f"the time of {counted(needs.unknown, 'GPU cell')} is unknown until one has been measured"
    if not spread:
        return f"left: {without_time if needs.unknown else 'nothing'}; {took}"
    beside = f"{cores} cores, a cell on each" if cores > 1 else "1 core"
    more, hours = planned.around, [f"{_rounded(needs.core_hours)} core-hours"]
    hours += [f"{_rounded(needs.gpu_hours)} GPU-hours"] if needs.gpu_hours else []
    measured = f"{needs.measured:,} of these cells estimated from finished ones, " if needs.measured else ""
    hours += [f"{estimate(more)} to begin, prepare data and make pages"]
    parts = [f"about {estimate(3600 * needs.hours + more)} on {beside} ({', '.join(hours)})"]
    parts += [f"8 of 10 cells take {spread.low:.1f} to {spread.high:.1f} times their estimate"]
    parts += [without_time] if needs.unknown else []
    parts += [f"{measured}largest cell about {needs.memory:,.0f} MB, results about {_rounded(needs.disk)} MB", took]
    return f"left: {'; '.join(parts)}"


def _artifacts(planned: Outlook) -> Iterator[str]:
    """A line where cells to come keep their models, and one where they keep their states."""
    for kind, name in (("models", "models"), ("state", "states")):
        files = planned.files_to_come(kind)
        if files.cells:
            size = f"{files.size / 1e9:.1f} GB" if files.size >= 1e9 else f"{_rounded(files.size / 1e6)} MB"
            more = f", and what {' and '.join(files.carriers)} carries" if files.carriers else ""
            size = (
                f"up to {size} ({STACKS} models a client; most methods keep fewer)"
                if files.at_most
                else f"about {size}"
            )
            yield f"{name} of {counted(files.cells, 'cell')}: {size}{more}"


def _rounded(number: float) -> str:
    """A number of an estimate in two digits, or whole."""
    if 0 < number < 0.01:
        return "<0.01"
    return f"{number:.2g}" if number < 9.5 else f"{number:,.0f}"


def _as_json(planned: Outlook) -> dict[str, Any]:
    """All that the table says, unrounded."""

    def values(experiment: Experiment) -> dict[str, Any]:
        needs = asdict(planned.needs_of(experiment.every_cell))
        data = unavailable(planned.prospects_of(experiment.every_cell))
        return {"id": experiment.id, "lacks": experiment.about.lacks, **needs, "data": dict(data)}

    spread = spread_of(planned.prospects.values())
    studies = [
        {"name": study.name, "scale": study.scale, "experiments": [values(e) for e in study.experiments]}
        | {"all": asdict(planned.needs_of(study.by_key.values()))}
        for study in planned.studies
    ]
    total = {"studies": studies, "all": asdict(planned.needs), "cores": planned.machine.cores, "around": planned.around}
    return total | {"times_estimate": spread and asdict(spread), "seconds": planned.seconds}
