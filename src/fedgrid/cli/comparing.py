"""``fedgrid compare METHOD``: a commented study that compares a method with others."""

import argparse
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import yaml

from fedgrid import shipped
from fedgrid.cli import joining
from fedgrid.cli.parsing import command, option, path
from fedgrid.components import describe, parse_setting
from fedgrid.data.common.images import IMAGE, DatasetInfo
from fedgrid.errors import UserError, nearest, say_notice
from fedgrid.files import slug, write_text
from fedgrid.grid.plan.instances import info_of
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.columns import data_entries
from fedgrid.grid.study.method_lists import ALL
from fedgrid.grid.study.sections import Origin, Section
from fedgrid.loading import locate, names
from fedgrid.quantities import counted
from fedgrid.settings import Training

ALWAYS = {
    "local": "every client alone: what federation has to beat",
    "fedavg": "one global model: what personalisation has to beat",
    "fedavg_ft": "FedAvg, fine-tuned by each client: the simplest personalisation",
}
"What stands in every comparison, and why."
MODELS = ("cnn", "fasttext", "har_cnn", "mlp", "image_text")
"The model of a comparison is the first that fits its data."
LEAST_SEEDS, SEEDS = 3, 5
"Fewest seeds for which a lead is tested, and the default."
SHOWN = ("rounds", "local_epochs", "batch_size", "optimizer", "lr")
"Settings of training that the study names."
TRAINING = {p["name"]: p["default"] for p in describe(Training)["parameters"] if p["name"] in SHOWN}


USUAL = {
    "data": ["digits"],
    "heterogeneity": ["dirichlet"],
    "model": None,
    "seeds": SEEDS,
    "rounds": TRAINING["rounds"],
}
"What the options are where they are not given."


@command(
    option("method METHOD", "path/to/mine.py, or a name (see fedgrid methods)"),
    option(
        "--against NAME",
        "names of methods, and families such as: all, all personalised, all split model (default: all); "
        "or a file of fedgrid bundle, or ranking (docs/ranking.md), whose cells are taken over",
        nargs="+",
        default=[ALL],
    ),
    option("--data NAME", "data sets, or paths to your own (default: digits)", nargs="+"),
    option(
        "--heterogeneity KIND[:NAME=VALUE,…]",
        "kinds, with settings after a colon (default: dirichlet)",
        nargs="+",
    ),
    option("--model", f"default: the first of {', '.join(MODELS)} that fits the data"),
    option("--seeds N", f"number of seeds, at least {LEAST_SEEDS} (default: {SEEDS})", type=int),
    option("--rounds T", f"default: {TRAINING['rounds']}", type=int),
    option("--out FILE", "the study's file (default: compare-METHOD.yaml)", type=path),
)
def compare(arguments: argparse.Namespace) -> None:
    """Write a study that compares a method with others.

    fedgrid compare mine.py
    fedgrid compare mine.py --data cifar10 --against all personalised --seeds 3 --rounds 100
    fedgrid compare mine.py --data mnist fmnist --heterogeneity dirichlet:beta=0.5 pathological:classes=2,clients=50
    fedgrid compare mine.py --against ranking
    fedgrid compare mine.py --against finished.zip
    """
    method, _, _ = locate("methods", arguments.method)
    out: Path = arguments.out or Path(f"compare-{method}.yaml")
    if out.exists():
        raise UserError(f"--out: {out} already exists; name another file")
    options = {name: value for name in USUAL if (value := getattr(arguments, name)) is not None}
    if archive := joining.archive_of(arguments.against):
        study = joining.join(archive, _row(arguments.method, out), out, options)
    else:
        study = _compared(method, arguments, USUAL | options, out)
    for notice in study.notices:
        say_notice(notice)
    size = counted(len(study.by_key), "cell")
    print(f"{out} is written: {counted(len(study.rows), 'method')}, {size}. To estimate its cost and to run it:")
    print(f"  fedgrid plan --configfile {quote(str(out))}")
    print(f"  fedgrid go {quote(str(out))}")


def _compared(method: str, arguments: argparse.Namespace, settings: Mapping[str, Any], out: Path) -> Study:
    """Writes the study of a method, those that stand in every comparison, and others."""
    if settings["seeds"] < LEAST_SEEDS:
        least = f"must be at least {LEAST_SEEDS}, for with fewer no lead is tested"
        raise UserError(f"--seeds: {least}; got {settings['seeds']}")
    rows = dict.fromkeys([arguments.method, *ALWAYS, *_entries(arguments.against)])
    data = [_reference(name, out) for name in settings["data"]]
    content = {
        "name": slug(out.stem),
        "data": data,
        "heterogeneity": [_heterogeneity(text, out) for text in settings["heterogeneity"]],
        "seeds": list(range(settings["seeds"])),
        "model": _reference(settings["model"], out) if settings["model"] else _model(data, out),
        "training": TRAINING | {"rounds": settings["rounds"]},
        "methods": [_row(row, out) for row in rows],
    }
    study = planned_study(Section(content, Origin(str(out))))  # a study that is written can be run
    write_text(out, _text(content, study.rows[method].title, counted(len(study.by_key), "cell"), out))
    return study


def _row(method: str, out: Path) -> str | dict[str, Any]:
    """The entry of `methods` for a name, or for the path of a file."""
    return {Path(method).stem: {"method": _reference(method, out)}} if method.endswith(".py") else method


def _entries(words: Sequence[str]) -> list[str]:
    """Entries of `methods`; words behind ``all`` that are no methods belong to its family, if nobody quoted them."""
    known, entries = {*names("methods"), ALL}, list[str]()
    for word in words:
        if entries and entries[-1].partition(" ")[0] == ALL and word.partition(" ")[0] not in known:
            entries[-1] += f" {word}"
        else:
            entries.append(word)
    return entries


def _reference(text: str, out: Path) -> str:
    """A name, or a path as the study in `out` has it: relative to its folder; components come before files."""
    is_component = any(text in names(kind) for kind in ("data", "models", "partition"))
    is_path = os.sep in text or text.endswith(".py") or (bool(text) and Path(text).exists() and not is_component)
    return os.path.relpath(text, out.parent) if is_path else text


def _heterogeneity(text: str, out: Path) -> dict[str, Any]:
    """An entry of `heterogeneity`, with the settings that the kind is named by; UserError for an unknown one."""
    kind, _, settings = text.partition(":")
    if not kind.endswith(".py") and kind not in names("partition"):
        raise UserError(f"--heterogeneity: unknown kind '{kind}'; {nearest(kind, names('partition'))}")
    about = description("partition", kind)
    named = {p["name"]: p["default"] for p in about["parameters"] if p["name"] in about["facts"]["named"]}
    given = (parse_setting(about, setting, "--heterogeneity") for setting in settings.split(",") if settings)
    usual = {name: value for name, value in named.items() if value is not None}
    return {"partition": _reference(kind, out)} | usual | dict(given)


def _model(data: list[str], out: Path) -> str:
    """The first of the usual models that fits all data sets; the last one where none does."""
    entries = data_entries(Section({"data": data}, Origin(str(out))))
    infos = [info_of(entry.value.component, None) for entry in entries]
    return next((name for name in MODELS if all(_fits(name, info) for info in infos)), MODELS[-1])


def _fits(model: str, info: DatasetInfo) -> bool:
    facts = description("models", model)["facts"]
    takes = info.kind in facts.get("kinds", (IMAGE,)) and tuple(facts.get("modalities", ())) == info.modalities
    return takes and min(info.shape[:2]) >= facts["smallest"]


def _text(content: Mapping[str, Any], title: str, size: str, out: Path) -> str:
    """The study as YAML with comments."""
    data = content["data"]
    lists = {key: "\n".join(f"  - {_flow(entry)}" for entry in content[key]) for key in ("heterogeneity", "methods")}
    for name, reason in ALWAYS.items():
        lists["methods"] = re.sub(f"(?m)^(  - {name})$", rf"\1{' ' * (26 - len(name))}# {reason}", lists["methods"])
    heading = " ".join(f"{title} and other methods".split())
    flows = {"title": heading, "data": data[0] if len(data) == 1 else data}
    flows |= {key: content[key] for key in ("name", "training")}
    aligned = {key: f"{_flow(content[key]):<22}" for key in ("seeds", "model")}
    values = lists | aligned | {key: _flow(value) for key, value in flows.items()}
    about = {"heading": heading, "size": size, "file": quote(str(out))}
    return shipped.template("cli/templates/compare.yaml.txt").substitute(values, **about)


def _flow(value: Any) -> str:
    """A value in a line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    return text.removesuffix("\n").removesuffix("\n...")
