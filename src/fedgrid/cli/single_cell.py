"""``fedgrid run METHOD``: one cell without Snakemake, with a progress bar and its final scores."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.components import describe, parse_setting
from fedgrid.errors import Damaged, UserError, complain
from fedgrid.files import check_writable
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.columns import PUBLISHED
from fedgrid.grid.study.sections import Section
from fedgrid.grid.study.yaml_file import read_value
from fedgrid.jobs import originals
from fedgrid.jobs.signals import TERMINATED
from fedgrid.loading import packaged
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
    text = "data set, or the path to your own: its files, or the .py that loads it (default: digits)"
    parser.add_argument("--data", default="digits", help=text)
    text = "kind of heterogeneity, or path/to/kind.py (default: dirichlet)"
    parser.add_argument("--partition", default="dirichlet", help=text)
    parser.add_argument("--model", default="mlp", help="model, or path/to/net.py (default: mlp)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a hyperparameter of the method"
    )
    parser.add_argument("--data-set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the data")
    parser.add_argument("--features", metavar="BACKBONE", help="train on frozen features, such as vit_tiny_patch16_224")
    parser.add_argument("--model-set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the model")
    text = "a setting of the partition, for one that is no option below"
    parser.add_argument("--partition-set", action="append", default=[], metavar="NAME=VALUE", help=text)
    parser.add_argument("--out", type=path, help="result file (default: its place in the store)")
    text = "what to keep beside the results"
    parser.add_argument("--artifacts", action="append", choices=ARTIFACTS, default=[], help=text)
    parser.add_argument("--results", default="results", help="folder of the store (default: results)")
    parser.add_argument("--data-root", help="where data sets lie (default: $FEDGRID_DATA)")
    parser.add_argument("--no-download", action="store_true", help="never touch the network")
    _add_settings(parser.add_argument_group("computation"), {"": COMPUTE})
    _add_settings(parser.add_argument_group("training"), {"": describe(Training)["parameters"]})
    kinds = {name: description("partition", name)["parameters"] for name in packaged("partition")}
    _add_settings(parser.add_argument_group("partition"), kinds)
    parser.set_defaults(call=_run)


def _add_settings(group: argparse._ArgumentGroup, kinds: Mapping[str, list[Mapping[str, Any]]]) -> None:
    """One option a setting, as the first kind that has it describes it, with the other defaults that others have."""
    by_name: dict[str, dict[str, Mapping[str, Any]]] = {}
    for kind, parameters in kinds.items():
        for parameter in parameters:
            by_name.setdefault(parameter["name"], {})[kind] = parameter
    for name, by_kind in by_name.items():
        first = next(iter(by_kind.values()))
        others = (f"{kind}: {p['default']}" for kind, p in by_kind.items() if p["default"] != first["default"])
        defaults = "; ".join([f"default: {first['default']}", *others])
        form = "|".join(first.get("choices") or [form.upper() for form in first["types"]])
        text = f"{first['doc'].rstrip('.')} ({defaults})".replace("%", "%%")
        group.add_argument(f"--{name.replace('_', '-')}", dest=f"setting_{name}", metavar=form, help=text)


def _run(arguments: argparse.Namespace) -> int:
    try:
        return _computed(arguments)
    except Damaged as error:
        return complain(error.removed())


def _computed(arguments: argparse.Namespace) -> int:
    from fedgrid.api.training import ensure_results  # pandas takes time to import

    study = planned_study(Section(_study(arguments)))
    cell = study.cells[0]
    originals.say_notices(study)
    out = arguments.out or cell.file
    origin = ensure_results(study, cell, out, heeds_signals=True)
    if origin == "interrupted":
        return TERMINATED
    if origin == "cached":
        print(f"{out} already holds this cell")
    elif origin == "taken":
        print("the first rounds of a longer run")
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
    of_partition = dict(parse_setting(partition, text, "--partition-set") for text in arguments.partition_set)
    features = {"features": arguments.features} if arguments.features else {}
    data_root = {"data_root": arguments.data_root} if arguments.data_root else {}
    return {
        "name": "run",
        "results": arguments.results,
        "download": not arguments.no_download,
        "data": {"name": arguments.data} | dict(map(data_setting, arguments.data_set)) | features,
        "heterogeneity": [{"partition": arguments.partition} | _typed(partition, others) | of_partition],
        "methods": {method["name"]: {"method": arguments.method} | entry},
        "model": {"name": arguments.model} | model_settings,
        "training": training,
        "seeds": [arguments.seed],
        "artifacts": arguments.artifacts,
        "compute": compute,
        **data_root,
    }


def data_setting(text: str) -> tuple[str, Any]:
    """Name and value of a setting of a data set as typed, ``name=value``; UserError for another form."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--data-set: '{text}' is not of the form name=value")
    return name, read_value(value, "--data-set", name)


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


def _print_scores(out: Path, cell: Cell) -> None:
    from fedgrid.analysis.scores.points import POINTS  # pandas takes time to import
    from fedgrid.api.training import read_cell

    finished = read_cell(out)
    table, metadata = finished.values, finished.metadata
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
