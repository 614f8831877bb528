"""``fedgrid docs``: the page on methods, in Markdown, made of what the methods say of themselves, or checked."""

import argparse
import inspect
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedgrid import shipped
from fedgrid.cli.components import as_text, bounds
from fedgrid.cli.parsing import command, flag, option, path
from fedgrid.components import describe
from fedgrid.errors import UserError
from fedgrid.files import write_text
from fedgrid.grid.study.method_lists import group
from fedgrid.loading import load, locate, names

DEFAULT = Path("docs/methods.md")

Described = Mapping[str, Any]
"""What `fedgrid.components.describe` says of a method, its module's docstring as ``text``, and what it keeps between
rounds, a `KeptNumbers`, as ``kept``."""

GROUPS = {
    "no federation": "The baseline of every table: what a client reaches alone.",
    "one global model": "Clients differ, and the server's one model is to be good for all of them together.",
    "global model": "One model travels, and each client makes a personal one of it, before or while it uses it.",
    "personal model beside the global one": "A client trains two models, its own and its copy of the global one.",
    "split model": "Some layers are shared and others stay with the client.",
    "own models": "Models never travel, only class means or logits: they may even differ in form.",
    "one mixture of models for each client": "The server mixes a model for each client from those of similar clients.",
    "one model for each cluster of clients": "Clients fall into a few groups, and each group has one model.",
    "models from a hypernetwork on the server": "The server learns to generate a model for each client.",
}
"""What distinguishes each group of methods: the first words of `family`, up to a colon or a comma."""

KEPT_OR_MARK = re.compile(
    r"""(?P<kept>^\ {4}.*|(?P<quote>`+)[^`]+(?P=quote)|(?<![\w*])\*\w[\w\ ]*\*(?![\w*]))  # code and emphasis are kept
    |(?<!\w)_|_(?!\w)|[*<]|^[+>#]  # a plain character that Markdown would take for a mark""",
    re.MULTILINE | re.VERBOSE,
)


@command(
    flag("--check", "write nothing; exit with 1 if the page would change"),
    option("--out FILE", f"default: {DEFAULT}", type=path, default=DEFAULT),
)
def docs(arguments: argparse.Namespace) -> None:
    """Write the page on methods from the methods themselves, or check that it is up to date.

    fedgrid docs
    fedgrid docs --check
    """
    file, text = arguments.out, methods_page()
    if not arguments.check:
        write_text(file, text)
        print(f"{file} is written")
    elif not file.is_file() or file.read_bytes() != text.encode():
        mend = "fedgrid docs" if file == DEFAULT else shlex.join(["fedgrid", "docs", "--out", str(file)])
        raise UserError(f"{file} is out of date; update it with: {mend}")
    else:
        print(f"{file} is up to date")


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


def page(methods: Mapping[str, Described]) -> str:
    """The whole page on the methods: a table for each group, then a section for each method, by name."""
    heads = ("method", "idea", "shared", "down", "up", "work", "client keeps", "server keeps", "scored", "citation")
    parts = [shipped.template("cli/templates/methods.md").template.rstrip()]
    for name, text in GROUPS.items():
        if rows := [_row(key, it) for key, it in methods.items() if group(it["facts"]["family"]) == name]:
            parts.append(f"### {name.capitalize()}\n\n{text}\n\n{_table(heads, rows)}")
    parts += [_section(name, method) for name, method in methods.items()]
    return "\n\n".join(parts) + "\n"


def _row(name: str, method: Described) -> list[str]:
    facts, kept = method["facts"], method["kept"]
    texts = [facts[key] for key in ("shares", "down", "up", "work")] + [kept.client, kept.server]
    citation = f"[{facts['cite']}](../CITATIONS.bib)" if facts["cite"] else "–"
    link = f"[`{name}`](#{name}) {_prose(method['title'])}"
    return [link, *map(_prose, [idea(method["text"]), *texts]), facts["score"], citation]


def idea(text: str) -> str:
    """The first sentence of a method's docstring, without its name."""
    return " ".join(text.partition("\n\n")[0].partition(": ")[2].rstrip(".").split())


def _section(name: str, method: Described) -> str:
    rows = [(f"`{p['name']}`", as_text(p["default"]), _limits(p), _prose(p["doc"])) for p in method["parameters"]]
    settings = _table(("hyperparameter", "default", "limits", "meaning"), rows) if rows else "No hyperparameters."
    return f"## {name}\n\n{_prose(method['text'])}\n\n{settings}"


def _limits(parameter: Mapping[str, Any]) -> str:
    choices = parameter.get("choices", (True, False) if "bool" in parameter["types"] else ())
    if choices:
        return ", ".join(map(as_text, choices))
    return " or ".join([bounds(parameter) or "any", *(["none"] if "None" in parameter["types"] else [])])


def _prose(text: str) -> str:
    """Plain text with code as Markdown: indented lines stay the code blocks that Markdown takes them for."""
    return KEPT_OR_MARK.sub(lambda match: match[0] if match["kept"] else f"\\{match[0]}", text)


def _table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(_line(cells) for cells in (heads, ["---"] * len(heads), *rows))


def _line(cells: Iterable[str]) -> str:
    """One row; a bar or the end of a line within a cell would end it."""
    flat = (" ".join(cell.split()).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(flat)} |"
