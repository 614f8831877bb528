"""``fedgrid docs``: the page on methods, written from the methods themselves, or checked against them."""

import argparse
import inspect
import shlex
from pathlib import Path
from typing import Any

from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.cli.reference import page
from fedgrid.components import describe
from fedgrid.errors import UserError
from fedgrid.files import write_text
from fedgrid.loading import load, locate, names

DEFAULT = Path("docs/methods.md")


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid docs` to the command line."""
    text = "write the page on methods from the methods themselves, or check that it is up to date"
    parser = with_examples(commands, "docs", text, "fedgrid docs\nfedgrid docs --check")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page would change")
    parser.add_argument("--out", type=path, default=DEFAULT, metavar="FILE", help=f"default: {DEFAULT}")
    parser.set_defaults(call=_docs)


def own_methods() -> list[str]:
    """Names of the package's own methods: which ones other packages announce depends on the machine."""
    return [name for name in names("methods") if locate("methods", name)[2] is None]


def methods_page() -> str:
    """The text of docs/methods.md, in Markdown."""
    return page({name: _described(name) for name in own_methods()})


def _described(name: str) -> dict[str, Any]:
    from fedgrid.suite.state_sizes import kept_numbers  # needs torch, which no other command should wait for

    method = load("methods", name)
    text = inspect.getdoc(inspect.getmodule(method)) or ""
    return describe(method) | {"text": text, "kept": kept_numbers(name)}


def _docs(arguments: argparse.Namespace) -> int:
    file, text = arguments.out, methods_page()
    if not arguments.check:
        write_text(file, text)
        print(f"{file} is written")
    elif not file.is_file() or file.read_bytes() != text.encode():
        mend = "fedgrid docs" if file == DEFAULT else shlex.join(["fedgrid", "docs", "--out", str(file)])
        raise UserError(f"{file} is out of date; update it with: {mend}")
    else:
        print(f"{file} is up to date")
    return 0
