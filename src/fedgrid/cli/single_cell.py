"""``fedgrid run METHOD``: one cell without Snakemake, with a progress bar and its final scores."""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fedgrid.cli.parsing import with_examples
from fedgrid.components import describe, parse_setting
from fedgrid.errors import UserError
from fedgrid.files import beside, check_writable, read_metadata
from fedgrid.grid.catalog import description
from fedgrid.grid.cells import Cell
from fedgrid.grid.study import PUBLISHED, Study, data_root, resolved
from fedgrid.loading import load, names
from fedgrid.settings import ARTIFACTS, Training

EXAMPLES = """
  fedgrid run fedavg --data digits --partition dirichlet --beta 0.1 --clients 8 --rounds 20 --seed 0
  fedgrid run fedprox --set mu=0.1 --partition pathological --classes 2 --out prox.parquet
  fedgrid run path/to/mine.py --data mnist --fraction 0.1 --model cnn --model-set features=64
"""


def add_commands(commands: argparse._SubParsersAction) -> None:
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
    parser.add_argument("--out", type=Path, help="result file (default: its place in the store)")
    text = "a table to keep beside the results"
    parser.add_argument("--artifacts", action="append", choices=ARTIFACTS, default=[], help=text)
    parser.add_argument("--results", default="results", help="folder of the store (default: results)")
    parser.add_argument("--data-root", help="where data sets lie (default: $FEDGRID_DATA)")
    parser.add_argument("--no-download", action="store_true", help="never touch the network")
    parser.add_argument("--checkpoint-every", type=float, default=60, metavar="SECONDS", help="default: 60")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default: auto)")
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads (default: 1)")
    kinds = ("auto", "loop", "stacked")
    parser.add_argument("--executor", choices=kinds, default="auto", help="clients one by one, or together")
    parser.add_argument("--client-chunk", default="auto", metavar="N", help="clients trained together (default: auto)")
    _add_settings(parser.add_argument_group("training"), describe(Training)["parameters"])
    kinds = [describe(load("partition", name)) for name in names("partition")]
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
    study = resolved(_study(arguments))
    cell = study.cells[0]
    out = arguments.out or cell.file
    if not _finished(out, cell):
        if not arguments.out:
            check_writable(study.store, "--results")
        _prepare(study, cell, arguments)
        if code := _train(cell, out, arguments):
            return code
    _print_scores(out, cell)
    return 0


def _study(arguments: argparse.Namespace) -> dict[str, Any]:
    """The study of one cell that the options describe."""
    _check(arguments)
    cache = Path(arguments.results) / "store" / "descriptions"
    method = description("methods", arguments.method, cache)
    model = description("models", arguments.model, cache)
    given = {k[8:]: v for k, v in vars(arguments).items() if k.startswith("setting_") and v is not None}
    published = arguments.partition.startswith(PUBLISHED)
    training, partition = describe(Training), describe(load("partition", "file" if published else arguments.partition))
    ours = {p["name"] for p in training["parameters"]}
    entry = dict(parse_setting(method, text, "--set") for text in arguments.set)
    model_settings = dict(parse_setting(model, text, "--model-set") for text in arguments.model_set)
    features = {"features": arguments.features} if arguments.features else {}
    return {
        "name": "run",
        "results": arguments.results,
        "download": not arguments.no_download,
        "data_root": arguments.data_root,
        "data": {"name": arguments.data} | dict(map(_data_setting, arguments.data_set)) | features,
        "heterogeneity": [{"partition": arguments.partition} | _typed(partition, given, ours)],
        "methods": {method["name"]: {"method": arguments.method} | entry},
        "model": {"name": arguments.model} | model_settings,
        "training": _typed(training, {k: v for k, v in given.items() if k in ours}, set()),
        "seeds": [arguments.seed],
        "keep": arguments.artifacts,
    }


def _data_setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--data-set: '{text}' is not of the form name=value")
    return name, yaml.safe_load(value)


def _check(arguments: argparse.Namespace) -> None:
    """Raises UserError for options outside their range; settings are checked against their components."""
    if arguments.seed < 0:
        raise UserError(f"--seed: must be at least 0, got {arguments.seed}")
    if arguments.threads < 1:
        raise UserError(f"--threads: must be at least 1, got {arguments.threads}")
    if arguments.checkpoint_every <= 0:
        raise UserError(f"--checkpoint-every: must be greater than 0, got {arguments.checkpoint_every}")
    if not re.fullmatch("auto|[1-9][0-9]*", arguments.client_chunk):
        raise UserError(f"--client-chunk: must be auto or a number of clients, got '{arguments.client_chunk}'")
    if not re.fullmatch("auto|cpu|cuda(:[0-9]+)?", arguments.device):
        raise UserError(f"--device: must be auto, cpu, cuda or cuda:NUMBER, got '{arguments.device}'")
    if arguments.out and arguments.out.is_dir():
        raise UserError(f"--out: {arguments.out} is a folder, name a file")
    if arguments.out:
        check_writable(arguments.out.parent, "--out")


def _typed(description: Mapping[str, Any], given: Mapping[str, str], others: set[str]) -> dict[str, Any]:
    texts = [f"{name}={value}" for name, value in given.items() if name not in others]
    return dict(parse_setting(description, text, f"--{text.partition('=')[0].replace('_', '-')}") for text in texts)


def _finished(out: Path, cell: Cell) -> bool:
    if not out.exists():
        return False
    found = read_metadata(out)["key"]
    if found != cell.key:
        raise UserError(f"--out: {out} holds another cell ({found}, not {cell.key}); delete it or name another file")
    if not all(file.is_file() for file in beside(out, cell.keep)):
        return False
    print(f"{out} holds this cell already")
    return True


def _prepare(study: Study, cell: Cell, arguments: argparse.Namespace) -> None:
    """Builds the data set, its features and the partition where the store lacks them."""
    from fedgrid.jobs.prepare import JOBS, build_partition

    data = cell.split.data
    for wanted in data.stages:
        if not all(file.is_file() for file in wanted.files.values()):
            how = arguments.device, arguments.threads
            JOBS[wanted.kind](wanted.job(data_root(study.text), study.downloads, *how))
    if not cell.split.file.is_file():
        build_partition(cell.split.job())


def _train(cell: Cell, out: Path, arguments: argparse.Namespace) -> int:
    """The exit code: 0, or that of a cell which SIGTERM broke off."""
    from fedgrid.engine.rounds import Saving, Terminated
    from fedgrid.jobs.cell import TERMINATED, Compute, heed_sigterm, run
    from fedgrid.jobs.reporting import Report

    saving = Saving(out.with_name(out.name + ".checkpoint"), cell.key, arguments.checkpoint_every)
    compute = Compute(arguments.device, arguments.threads, arguments.executor, arguments.client_chunk)
    heed_sigterm()
    with Report(cell.method.title, cell.method.training["rounds"], sys.stderr) as report:
        try:
            run(cell.job(), out, saving, compute, report.tell)
        except Terminated:
            return TERMINATED
    return 0


def _print_scores(out: Path, cell: Cell) -> None:
    import pyarrow.parquet as pq

    metadata, table = read_metadata(out), pq.read_table(out).to_pandas()
    print(f"{cell.method.title} on {cell.split.data.label}, {cell.heterogeneity}, seed {cell.seed}: ", end="")
    print(f"{metadata['status']}, {metadata['rounds']} rounds, {metadata['costs']['seconds']['total']:.1f} s")
    if metadata["reason"]:
        print(f"  {metadata['reason']}")
    for model in ("global", "personal", "trained"):
        rows = table[table["metric"] == f"accuracy_{model}"]
        last = rows[rows["round"] == rows["round"].max()]["value"] * 100
        if len(last):
            mark = "   <- what its paper scores" if model == metadata["score"] else ""
            spread = f"mean over clients {last.mean():6.2f} %, std {last.std(ddof=0):5.2f}"
            print(f"  {model:8} model after round {rows['round'].max()}: {spread}{mark}")
    print(f"results: {out}")
