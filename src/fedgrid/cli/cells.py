"""``fedgrid run | predict``: one cell without Snakemake, and what its final models say of pictures."""

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgrid.api.finding import the_cell
from fedgrid.cli.parsing import STORE, STUDY, any_path, assignments, command, flag, option, path, study_of
from fedgrid.components import describe, parse_setting
from fedgrid.errors import Damaged, UserError, complain, say_notice
from fedgrid.files import check_writable, replacing
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.columns import PUBLISHED
from fedgrid.grid.study.yaml_file import read_value
from fedgrid.jobs.signals import TERMINATED
from fedgrid.loading import packaged
from fedgrid.settings import ARTIFACTS, Compute, Training

OF_CLUSTERS = ("gpu_share", "pack", "mem_mb", "runtime")


def _settings(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each setting of computing, training and the package's kinds of partitions."""
    compute = [parameter for parameter in describe(Compute)["parameters"] if parameter["name"] not in OF_CLUSTERS]
    _add_settings(parser.add_argument_group("computation"), {"": compute})
    _add_settings(parser.add_argument_group("training"), {"": describe(Training)["parameters"]})
    kinds = {name: description("partition", name)["parameters"] for name in packaged("partition")}
    _add_settings(parser.add_argument_group("partition"), kinds)


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


@command(
    option("method METHOD", "a name (see fedgrid methods) or path/to/mine.py"),
    option(
        "--data",
        "data set, or the path to your own: its files, or the .py that loads it (default: digits)",
        default="digits",
    ),
    option("--partition", "kind of heterogeneity, or path/to/kind.py (default: dirichlet)", default="dirichlet"),
    option("--model", "model, or path/to/net.py (default: mlp)", default="mlp"),
    option("--seed", type=int, default=0),
    assignments("set", "a hyperparameter of the method"),
    assignments("data-set", "a setting of the data"),
    option("--features BACKBONE", "train on frozen features, such as vit_tiny_patch16_224"),
    assignments("model-set", "a setting of the model"),
    assignments("partition-set", "a setting of the partition, for one that is no option below"),
    option("--out", "result file (default: its place in the store)", type=path),
    option("--artifacts", "what to keep beside the results", action="append", choices=ARTIFACTS, default=[]),
    *STORE,
    flag("--no-download", "never touch the network"),
    _settings,
)
def run(arguments: argparse.Namespace) -> int:
    """Train one cell without Snakemake.

    fedgrid run fedavg --data digits --partition dirichlet --beta 0.1 --clients 8 --rounds 20 --seed 0
    fedgrid run fedprox --set mu=0.1 --partition pathological --classes 2 --out prox.parquet
    fedgrid run path/to/mine.py --data mnist --fraction 0.1 --model cnn --model-set features=64
    """
    from fedgrid.api.training import compute_cell  # pandas takes time to import

    try:
        cell, out, origin = compute_cell(_study(arguments), arguments.out, heeds_signals=True)
    except Damaged as error:
        return complain(error.removed())
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
    if arguments.seed < 0:
        raise UserError(f"--seed: must be at least 0, got {arguments.seed}")
    if arguments.out:
        if arguments.out.is_dir():
            raise UserError(f"--out: {arguments.out} is a folder, name a file")
        check_writable(arguments.out.parent, "--out")
    method, model = description("methods", arguments.method), description("models", arguments.model)
    settings = {k[8:]: v for k, v in vars(arguments).items() if k.startswith("setting_") and v is not None}
    published = arguments.partition.startswith(PUBLISHED)
    partition = description("partition", "file" if published else arguments.partition)
    training, compute = (
        _typed(about, {p["name"]: settings.pop(p["name"]) for p in about["parameters"] if p["name"] in settings})
        for about in (describe(Training), describe(Compute))
    )
    entry = dict(parse_setting(method, text, "--set") for text in arguments.set)
    model_settings = dict(parse_setting(model, text, "--model-set") for text in arguments.model_set)
    partition_settings = dict(parse_setting(partition, text, "--partition-set") for text in arguments.partition_set)
    features = {"features": arguments.features} if arguments.features else {}
    data_root = {"data_root": arguments.data_root} if arguments.data_root else {}
    return data_root | {
        "name": "run",
        "results": arguments.results,
        "download": not arguments.no_download,
        "data": {"name": arguments.data} | dict(map(data_setting, arguments.data_set)) | features,
        "heterogeneity": [{"partition": arguments.partition} | _typed(partition, settings) | partition_settings],
        "methods": {method["name"]: {"method": arguments.method} | entry},
        "model": {"name": arguments.model} | model_settings,
        "training": training,
        "seeds": [arguments.seed],
        "artifacts": arguments.artifacts,
        "compute": compute,
    }


def data_setting(text: str) -> tuple[str, Any]:
    """Name and value of a setting of a data set as typed, ``name=value``; UserError for another form."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--data-set: '{text}' is not of the form name=value")
    return name, read_value(value, "--data-set", name)


def _typed(about: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Settings of options as typed on a command line, with the types of a component; UserError for one it has not."""
    return dict(parse_setting(about, f"{name}={text}", f"--{name.replace('_', '-')}") for name, text in texts.items())


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


@command(
    option("cell CELL", "the file of its results, its key, or words that fit it alone: 'fedper, seed 0'"),
    option("images IMAGE", "pictures, or folders of pictures", nargs="+", type=any_path),
    option("--client N", "whose model; needed where clients have their own", type=int),
    option("--point", "global, received, adapted or trained (default: the point that the method's paper scores)"),
    option("--out FILE", "write a CSV file instead of printing", type=path),
    *STUDY,
)
def predict(arguments: argparse.Namespace) -> None:
    """Score your own pictures with a final model of a cell that keeps its models.

    fedgrid predict 3fa1b2c4 photo.jpg --client 3
    fedgrid predict results/…/s0-3fa1b2c4d5e6f708.parquet photos/ --client 3 --point received --out scores.csv
    """
    from fedgrid.api.scoring import Scorer, pictures_in  # torch takes seconds to import

    scorer = Scorer(_cell(arguments), arguments.client, arguments.point)
    files = pictures_in(arguments.images)
    scores = scorer.scores(files)
    if arguments.out:
        # a picture's name that is not UTF-8 is escaped
        options: dict[str, Any] = {"newline": "", "encoding": "utf-8", "errors": "backslashreplace"}
        with replacing(arguments.out) as temporary, open(temporary, "w", **options) as target:
            writer = csv.writer(target)
            writer.writerow(["file", "class", "probability"])
            writer.writerows([score.file, score.name, f"{score.probability:.6f}"] for score in scores)
    else:
        width = max(len(str(file)) for file in files)
        for score in scores:
            print(f"{score.file!s:{width}}  {score.name}  {score.probability:.4f}")
    for change, number in scorer.changes.items():
        say_notice(f"{number:,} of {len(files):,} pictures: {change}")


def _cell(arguments: argparse.Namespace) -> Path:
    """The file of results, or of models, that is meant."""
    file = path(arguments.cell)
    is_path = file.is_file() or file.suffix in (".parquet", ".safetensors")
    selection = [word.strip() for word in arguments.cell.split(",")]
    return file if is_path else the_cell(study_of(arguments), selection, "predict").file
