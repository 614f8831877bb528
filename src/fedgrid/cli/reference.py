"""The page on methods, ``docs/methods.md``: Markdown made of what the methods say of themselves."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fedgrid.cli.listing import as_text, bounds
from fedgrid.grid.study.method_lists import group

Described = Mapping[str, Any]
"""What `fedgrid.components.describe` says of a method, its module's docstring as ``text``, and what it keeps between
rounds, a `KeptNumbers`, as ``kept``."""

INTRODUCTION = """# Methods

`fedgrid docs` writes this page from the methods' own files: edit those. Papers are named by their keys in
[CITATIONS.bib](../CITATIONS.bib).

## Which one do I need?

Ask three questions.

* **Is one model for all clients enough?** Then take a method that scores the `global` one. Else each client needs a
  model that fits its own images: all other groups.
* **Do the same clients come back?** Where thousands of clients are drawn once or twice, as on phones, take a method
  whose clients keep nothing. Where a few hospitals or companies take part in every round, any will do.
* **What may travel, and what does a round cost?** The tables say it in numbers, for the default settings.

A table of results without Local, FedAvg and FedAvg-FT cannot be judged: they show whether federation helps at all, and
what fine-tuning alone does for it. [Every method in one table](../benchmarks/results/methods/README.md) has both. A
study takes a whole group by its first words, such as `all split model` ([studies.md](studies.md)).

θ are the parameters of a client's whole model, φ those of its extractor, π those of its head: |θ| = |φ| + |π|. C is the
number of classes, C_i the set of classes of which client i has training images, k the length of a representation, N the
number of clients, M a number that depends on the data or on settings, and M_i that of client i. *Down* and *up* are the
numbers that a participant receives and sends in a round. Class means travel for the classes that have one: C·k down is
reached once every class is known to the server. In float32 the bytes are four times the numbers; the test suite checks
the formulas against the bytes that the engine counts. *Work* is how many forward-backward passes over its images a
participant makes in a round, with E local epochs: so many times its batches are the steps of a round. pFedHN's 50
batches do not depend on E, and APPLE's steps have momentum, so that a table at the defaults flatters both; [all methods
with as many steps](../benchmarks/results/methods/README.md#at-equal-steps) stand beside it. *Client keeps* and *server
keeps* are the numbers that last from round to round, measured.

Every model that a method has is scored and recorded for every client: `global`, the server's one model; `received`,
what a client holds on receiving the server's message, before any work of its own in the round; `adapted`, what a method
makes of that on the client's images before it is used; `trained`, the model after local training. *Scored* is the
one that the method's paper reports.

*Readings* list where a paper is ambiguous or its code differs from its text, and what was chosen here."""

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


def page(methods: Mapping[str, Described]) -> str:
    """The whole page on the methods: a table for each group, then a section for each method, by name."""
    tables = [_group(name, methods) for name in GROUPS if _members(name, methods)]
    sections = [_section(name, method) for name, method in methods.items()]
    return "\n\n".join([INTRODUCTION, *tables, *sections]) + "\n"


def _members(name: str, methods: Mapping[str, Described]) -> dict[str, Described]:
    return {key: method for key, method in methods.items() if group(method["facts"]["family"]) == name}


def _group(name: str, methods: Mapping[str, Described]) -> str:
    heads = ("method", "idea", "shared", "down", "up", "work", "client keeps", "server keeps", "scored", "citation")
    rows = [_row(key, method) for key, method in _members(name, methods).items()]
    return f"### {name.capitalize()}\n\n{GROUPS[name]}\n\n{_table(heads, rows)}"


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


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    return "\n".join(_line(cells) for cells in (heads, ["---"] * len(heads), *rows))


def _line(cells: Iterable[str]) -> str:
    """One row; a bar or the end of a line within a cell would end it."""
    flat = (" ".join(cell.split()).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(flat)} |"
