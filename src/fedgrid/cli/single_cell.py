"""``fedgrid run METHOD``: one cell without Snakemake, with a progress bar and its final scores."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.components import describe, parse_setting
from fedgrid.errors import Damaged, UserError, complain
from fedgrid.files import check_writable, read_metadata, read_table
from fedgrid.grid.adoption.other_rounds import longer_run
from fedgrid.grid.plan.commit import commit
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.columns import PUBLISHED
from fedgrid.grid.study.sections import Section
from fedgrid.jobs import originals
from fedgrid.jobs.gpus import check_device
from fedgrid.loading import names
from fedgrid.settings import ARTIFACTS, Compute, Training

EXAMPLES = """
  fedgrid run fedavg --data digits --partition dirichlet --beta 0.1 --clients 8 --rounds 20 --seed 0
  fedgrid run fedprox --set mu=0.1 --partition pathological --classes 2 --out prox.parquet
  fedgrid run path/to/mine.py --data mnist --fraction 0.1 --model cnn --model-set features=64
"""
OF_CLUSTERS = ("gpu_share", "pack", "mem_mb", "runtime")
COMPUTE = [parameter for parameter in describe(Compute)["parameters"] if parameter["name"] not in OF_CLUSTERS]


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid run` to the command line."""
    parser = with_examples(commands, "run", "train one cell without Snakemake", EXAMPLES)
    parser.add_argument("method", metavar="METHOD", help="a name (see fedgrid methods) or path/to/mine.py")
    parser.add_argument("--data", default="digits", help="data set, or the path of one's own (default: digits)")
    parser.add_argument("--partition", default="dirichlet", help="kind of heterogeneity (default: dirichlet)")
    parser.add_argument("--model", default="mlp", help="model (default: mlp)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a hyperparameter of the method"
    )
    parser.add_argument("--data-set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the data")
    parser.add_argument("--features", metavar="BACKBONE", help="train on frozen features, such as vit_tiny_patch16_224")
    parser.add_argument("--model-set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the model")
    parser.add_argument("--out", type=path, help="result file (default: its place in the store)")
    text = "what to keep beside the results"
    parser.add_argument("--artifacts", action="append", choices=ARTIFACTS, default=[], help=text)
    parser.add_argument("--results", default="results", help="folder of the store (default: results)")
    parser.add_argument("--data-root", help="where data sets lie (default: $FEDGRID_DATA)")
    parser.add_argument("--no-download", action="store_true", help="never touch the network")
    _add_settings(parser.add_argument_group("computation"), COMPUTE)
    _add_settings(parser.add_argument_group("training"), describe(Training)["parameters"])
    kinds = [description("partition", name) for name in names("partition")]
    _add_settings(parser.add_argument_group("partition"), [p for kind in kinds for p in kind["parameters"]])
    parser.set_defaults(call=_run)


def _add_settings(group: argparse._ArgumentGroup, parameters: list[Mapping[str, Any]]) -> None:
    """One option a setting; what several kinds of partition share is added once."""
    for parameter in {p["name"]: p for p in parameters}.values():
        text = f"{parameter['doc'].rstrip('.')} (default: {parameter['default']})".replace("%", "%%")
        kind = "|".join(parameter.get("choices") or [kind.upper() for kind in parameter["types"]])
        option = "--" + parameter["name"].replace("_", "-")
        group.add_argument(option, dest=f"setting_{parameter['name']}", metavar=kind, help=text)


def _run(arguments: argparse.Namespace) -> int:
    try:
        return _computed(arguments)
    except Damaged as error:
        return complain(error.removed())


def _computed(arguments: argparse.Namespace) -> int:
    study = planned_study(Section(_study(arguments)))
    cell = study.cells[0]
    originals.say_notices(study)
    out = arguments.out or cell.file
    if not _finished(out, cell) and not _taken(out, cell):
        check_device(study.compute.device)
        if not arguments.out:
            check_writable(study.store, "--results")
        plan = Plan(replace(study, name=f"run-{cell.key}")).write()  # `fedgrid prune` respects it
        _prepare(study, cell)
        if code := _train(study, cell, out):
            return code
        plan.unlink(missing_ok=True)
    _print_scores(out, cell)
    return 0


def _study(arguments: argparse.Namespace) -> dict[str, Any]:
    """The study of one cell that the options describe."""
    _check(arguments)
    method, model = description("methods", arguments.method), description("models", arguments.model)
    settings = {k[8:]: v for k, v in vars(arguments).items() if k.startswith("setting_") and v is not None}
    published = arguments.partition.startswith(PUBLISHED)
    partition = description("partition", "file" if published else arguments.partition)
    training, compute = (_typed(of, settings, of) for of in (describe(Training), describe(Compute)))
    others = {name: value for name, value in settings.items() if name not in training | compute}
    entry = dict(parse_setting(method, text, "--set") for text in arguments.set)
    model_settings = dict(parse_setting(model, text, "--model-set") for text in arguments.model_set)
    features = {"features": arguments.features} if arguments.features else {}
    data_root = {"data_root": arguments.data_root} if arguments.data_root else {}
    return {
        "name": "run",
        "results": arguments.results,
        "download": not arguments.no_download,
        "data": {"name": arguments.data} | dict(map(_data_setting, arguments.data_set)) | features,
        "heterogeneity": [{"partition": arguments.partition} | _typed(partition, others)],
        "methods": {method["name"]: {"method": arguments.method} | entry},
        "model": {"name": arguments.model} | model_settings,
        "training": training,
        "seeds": [arguments.seed],
        "artifacts": arguments.artifacts,
        "compute": compute,
        **data_root,
    }


def _data_setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--data-set: '{text}' is not of the form name=value")
    try:
        return name, yaml.safe_load(value)
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"--data-set: the value in {text!r} is not YAML") from error


def _check(arguments: argparse.Namespace) -> None:
    """Raises UserError for options outside their range; settings are checked against their components."""
    if arguments.seed < 0:
        raise UserError(f"--seed: must be at least 0, got {arguments.seed}")
    if arguments.out and arguments.out.is_dir():
        raise UserError(f"--out: {arguments.out} is a folder, name a file")
    if arguments.out:
        check_writable(arguments.out.parent, "--out")


def _typed(
    description: Mapping[str, Any], texts: Mapping[str, str], only: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The given settings, typed as a component's; with `only`, those that this component has."""
    known = {parameter["name"] for parameter in only["parameters"]} if only else set(texts)
    assignments = [f"{name}={value}" for name, value in texts.items() if name in known]
    return dict(
        parse_setting(description, text, f"--{text.partition('=')[0].replace('_', '-')}") for text in assignments
    )


def _finished(out: Path, cell: Cell) -> bool:
    if not out.exists():
        return False
    metadata = read_metadata(out)
    if metadata["key"] != cell.key:
        which = f"{metadata['key']}, not {cell.key}"
        raise UserError(f"--out: {out} holds another cell ({which}); delete it or name another file")
    if cell.is_of_other_images(metadata):
        raise UserError(f"{out} was trained on other images than those in the store; delete it and run again")
    if not all(file.is_file() for file in cell.kept_beside(out).values()):
        return False
    print(f"{out} already holds this cell")
    return True


def _taken(out: Path, cell: Cell) -> bool:
    """Whether a longer run had the results, which are then written."""
    longer = longer_run(cell)
    if longer is None:
        return False
    from fedgrid.jobs.other_rounds import take  # torch takes seconds to import

    take(cell, out, longer)
    print(f"the first rounds of {longer.file}")
    return True


def _prepare(study: Study, cell: Cell) -> None:
    """Builds the data set, its features and the partition where the store lacks them."""
    from fedgrid.jobs import dataset, partition

    for stage in cell.partition.data.stages:
        if not stage.built:
            dataset.build(stage, study)
    if not cell.partition.file.is_file():
        partition.build(cell.partition)


def _train(study: Study, cell: Cell, out: Path) -> int:
    """The exit code: 0, or that of a cell which SIGTERM broke off."""
    from fedgrid.engine.rounds import Saving, Terminated  # torch takes seconds to import
    from fedgrid.jobs.cell import train
    from fedgrid.jobs.other_rounds import origin
    from fedgrid.jobs.reporting import TERMINATED, Report
    from fedgrid.jobs.signals import ignore_signals, install_signal_handlers

    checkpoint, every = out.with_name(out.name + ".checkpoint"), study.compute.checkpoint_every
    saving = Saving(checkpoint, cell.key, every, origin(cell, out))
    point = description("methods", cell.row.component.reference)["facts"]["score"]
    with Report(cell.row.title, cell.row.training["rounds"], point, sys.stderr) as report:
        try:
            install_signal_handlers()
            train(cell, out, study.compute, saving, report.tell, commit())
        except Terminated:
            return TERMINATED
        finally:
            ignore_signals()
    return 0


def _print_scores(out: Path, cell: Cell) -> None:
    from fedgrid.analysis.scores.points import POINTS  # pandas takes time to import

    rows, metadata = read_table(out)
    table = rows.to_pandas()
    print(f"{cell.row.title} on {cell.partition.data.label}, {cell.heterogeneity}, seed {cell.seed}: ", end="")
    print(f"{metadata['status']}, {metadata['rounds']} rounds, {metadata['costs']['seconds']['total']:.1f} s")
    if metadata["reason"]:
        print(f"  {metadata['reason']}")
    for point in POINTS:
        rows = table[table["metric"] == f"accuracy_{point}"]
        last = rows[rows["round"] == rows["round"].max()]["value"] * 100
        if len(last):
            mark = "   <- what its paper scores" if point == metadata["score"] else ""
            spread = f"mean over clients {last.mean():6.2f} %, std {last.std(ddof=0):5.2f}"
            print(f"  {point:8} model after round {rows['round'].max()}: {spread}{mark}")
    print(f"results: {out}")
