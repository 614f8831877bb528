"""The page on methods, ``docs/methods.md``: Markdown made of nothing but what the methods say of themselves."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fedgrid.cli.listing import as_text, bounds

Described = Mapping[str, Any]
"What `fedgrid.components.describe` says of a method, and its module's docstring as ``text``."

INTRODUCTION = """# Methods

`fedgrid docs` writes this page from the methods' own files: edit those. Papers are named by their keys in
[CITATIONS.bib](../CITATIONS.bib).

θ are the parameters of a client's whole model, φ those of its extractor, π those of its head: |θ| = |φ| + |π|. C is the
number of classes, C_i the set of classes of which client i has training images, k the length of a representation, M the
number of vectors that the server has to share and M_i of those that client i sends, which depend on the data. The
columns *down* and *up* say how many numbers a participant receives and sends in a round, with the defaults below. Class
means travel for the classes that have one: C·k down is reached once every class is known to the server. In float32 the
bytes are four times the numbers; the test-suite holds the formulas against the bytes that the engine counts. The column
*work* says how many forward-backward passes over its images a participant makes in a round, with E local epochs.

Every model that a method has is scored and recorded for every client: `global`, the server's one model; `received`,
what a client holds on receiving the server's message, before any work of its own in the round; `adapted`, what a method
makes of that on the client's images before it is used; `trained`, the model after local training. The column *scored*
names the one that the method's paper reports."""

KEPT_OR_MARK = re.compile(
    r"""(?P<kept>^\ {4}.*|(?P<quote>`+)[^`]+(?P=quote)|(?<![\w*])\*\w[\w\ ]*\*(?![\w*]))  # code and emphasis are kept
    |(?<!\w)_|_(?!\w)|[*<]|^[+>#]  # a plain character that Markdown would take for a mark""",
    re.MULTILINE | re.VERBOSE,
)


def page(methods: Mapping[str, Described]) -> str:
    """The whole page on the methods, by name and in the order given."""
    sections = [_section(name, method) for name, method in methods.items()]
    return "\n\n".join([INTRODUCTION, _overview(methods), *sections]) + "\n"


def _overview(methods: Mapping[str, Described]) -> str:
    heads = ("method", "type", "shared", "down", "up", "work", "scored", "citation")
    return _table(heads, [_row(name, method) for name, method in methods.items()])


def _row(name: str, method: Described) -> list[str]:
    facts = method["facts"]
    texts = [_prose(facts[key]) for key in ("family", "shares", "down", "up", "work")]
    citation = f"[{facts['cite']}](../CITATIONS.bib)" if facts["cite"] else "–"
    return [f"[`{name}`](#{name}) {_prose(method['title'])}", *texts, facts["score"], citation]


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
