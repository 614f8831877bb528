"""``fedgrid new-method NAME``, ``new-model``, …: a commented file to start from, which passes the suite as it is."""

import argparse
import keyword
import re
import sys
from functools import partial
from importlib.metadata import packages_distributions
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from fedgrid import shipped
from fedgrid.cli.parsing import Command, option, path
from fedgrid.cli.phrases import path_in_study
from fedgrid.errors import UserError
from fedgrid.files import write_text
from fedgrid.loading import KINDS, names


class New(NamedTuple):
    """How a new file of a kind of component is asked for, and what is said then."""

    command: str
    example: str
    trial: str
    "Of `fedgrid run`."
    entry: str
    "In a study."


NEW = {
    "methods": New("new-method", "fedmine", "{file}", "methods: {{{name}: {{method: {file}}}}}"),
    "models": New("new-model", "mynet", "fedavg --model {file}", "model: {file}"),
    "partition": New("new-partition", "mykind", "fedavg --partition {file}", "heterogeneity: [{{partition: {file}}}]"),
    "data": New("new-data", "mydata", "fedavg --data {file}", "data: [{file}]"),
}


def component_text(kind: str, name: str) -> str:
    """The text of a new file of that kind and name."""
    return shipped.template(f"cli/templates/{kind}.py.txt").substitute(name=name, title=_title(name))


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _write(kind: str, arguments: argparse.Namespace) -> int:
    name, new = arguments.name, NEW[kind]
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,99}", name):
        form = "at most 100 lower-case letters, digits and '_', starting with a letter"
        raise UserError(f"NAME: '{name[:40]}' must be {form}")
    file: Path = arguments.folder / f"{name}.py"
    if keyword.iskeyword(name) or keyword.iskeyword(_title(name)):
        raise UserError(f"NAME: '{name}' is a reserved word of Python")
    if name in names(kind):
        raise UserError(f"NAME: a {KINDS[kind]} '{name}' already exists")
    if file.exists():
        raise UserError(f"NAME: {file} already exists")
    if name in {"fedgrid", *sys.stdlib_module_names, *packages_distributions()}:
        raise UserError(f"NAME: a file {file.name} would hide the module '{name}' from scripts in its folder")
    write_text(file, component_text(kind, name))
    print(f"{file} is written. Try it, check it, use it:")
    print(f"  fedgrid run {new.trial.format(file=quote(str(file)))} --rounds 5")
    print(f"  fedgrid check {quote(str(file))}")
    named, study = path_in_study(file)
    print(f"  {new.entry.format(name=name, file=named)}   # in {study}")
    return 0


COMMANDS = [
    Command(
        new.command,
        f"write a commented one-file {KINDS[kind]} to start from",
        [f"fedgrid {new.command} {new.example}{folder}" for folder in ("", f" --folder src/fedgrid/{kind}")],
        [
            option("name NAME", f"lower case, e.g. {new.example}: name of the file and in studies"),
            option("--folder", "where (default: here; the file may lie anywhere)", type=path, default=Path()),
        ],
        partial(_write, kind),
    )
    for kind, new in NEW.items()
]
