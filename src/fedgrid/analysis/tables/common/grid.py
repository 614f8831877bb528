"""A table as text, apart from where it is printed: Markdown, LaTeX or HTML."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from fedgrid.analysis.prose.footnotes import letter
from fedgrid.analysis.scores.results import DASH

Header = list[list[tuple[str, int]]]
"""Levels from the top, each a list of (text, columns spanned)."""


@dataclass(frozen=True)
class Entry:
    """One printed value; `mark` (rank) and `notes` (letters of footnotes) are printed raised behind it."""

    text: str = DASH
    mark: str = ""
    notes: str = ""
    bold: bool = False
    italic: bool = False
    position: tuple[str, str, str, str] | None = None
    "Of an accuracy: its row, data set, heterogeneity and domain."
    popover: str = ""
    "On a page, the id of what a click on the value shows."

    @property
    def raised(self) -> str:
        """Superscript behind the text."""
        return self.mark + self.notes


@dataclass(frozen=True)
class Grid:
    """A table; its `header` is right of the stub."""

    caption: str
    stub: str
    header: Header
    rows: list[tuple[str, list[Entry]]]
    notes: list[str] = field(default_factory=list)
    textual: bool = False
    "Whether the entries are text, which is aligned left, not numbers."

    @property
    def lettered_notes(self) -> list[tuple[str, str]]:
        """The footnotes with their letters."""
        return [(letter(i), note) for i, note in enumerate(self.notes)]


Table = tuple[pd.DataFrame, Grid]
"""The numbers in full precision, one row an entry, and the table to print."""


def levels(leaves: Sequence[tuple[str, ...]]) -> Header:
    """A header for columns that are named from the top, such as (data set, heterogeneity, number).

    Neighbours with the same names down to a level share its head, but for the last level. One that names none is left
    out.
    """
    runs = []
    for depth in range(len(leaves[0]) if leaves else 0):
        if not any(leaf[depth] for leaf in leaves):
            continue
        level: list[tuple[str, int]] = []
        for i, leaf in enumerate(leaves):
            shared = i > 0 and depth < len(leaf) - 1 and leaf[: depth + 1] == leaves[i - 1][: depth + 1]
            level[-1:] = [(leaf[depth], level[-1][1] + 1)] if shared else [*level[-1:], (leaf[depth], 1)]
        runs.append(level)
    return runs or [[]]


@cache
def templates() -> Environment:
    """The HTML templates of this package, escaping what they print."""
    return Environment(
        loader=PackageLoader("fedgrid.analysis.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def rendered(template: str, **values: Any) -> str:
    """The text of a template with these values."""
    return templates().get_template(template).render(**values)


def html(grid: Grid) -> str:
    """The table as an HTML fragment: one <figure>."""
    return rendered("table.html.j2", grid=grid)


def markdown(grid: Grid) -> str:
    """The table in Markdown, which has one header line: the levels are joined."""
    spread = [[text for text, span in level for _ in range(span)] for level in grid.header]
    header = [grid.stub, *(", ".join(filter(None, parts)) for parts in zip(*spread, strict=True))]
    lines = [
        [text.translate(MARKDOWN) for text in header],
        ["---", *["---" if grid.textual else "---:"] * (len(header) - 1)],
    ]
    lines += [[name.translate(MARKDOWN), *map(markdown_entry, entries)] for name, entries in grid.rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "".join(f"\n\n<sup>{mark}</sup> {note.translate(MARKDOWN)}" for mark, note in grid.lettered_notes)
    return f"{grid.caption.translate(MARKDOWN)}\n\n{body}{notes}\n"


MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>|~$"})
"What Markdown would not print as it stands."


def markdown_entry(entry: Entry) -> str:
    """One value in Markdown."""
    text = entry.text.translate(MARKDOWN)
    text = f"**{text}**" if entry.bold else f"_{text}_" if entry.italic else text
    raised = entry.raised.replace("*", r"\*")
    return text + (f"<sup>{raised}</sup>" if raised else "")


GREEK = {char: unicodedata.name(char).rpartition(" ")[2].lower() for char in "αβγδηκμπρστω"}
GREEK |= {"ε": "varepsilon", "λ": "lambda", "φ": "varphi"}
TEX = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "[": "{[}",  # after a line's end it would begin an option
        "]": "{]}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "±": r"$\pm$",
        "×": r"$\times$",
        "≤": r"$\leq$",
        "≥": r"$\geq$",
        "−": "$-$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "Δ": r"$\Delta$",
        "–": "--",
        "…": r"\dots{}",
        **{mark: rf"\textcircled{{{rank}}}" for rank, mark in enumerate("①②③", 1)},
        "“": "``",
        "”": "''",
        **{char: rf"$\{name}$" for char, name in GREEK.items()},
    }
)
"""What LaTeX would not print as it stands."""


def latex(grid: Grid) -> str:
    """The table in LaTeX, for the package booktabs."""
    columns = sum(span for _, span in grid.header[0])
    levels = [tex_level(grid.stub if level is grid.header[-1] else "", level) for level in grid.header]
    rows = [" & ".join([name.translate(TEX), *map(tex_entry, entries)]) + r" \\" for name, entries in grid.rows]
    notes = [rf"\par\textsuperscript{{{mark}}} {note.translate(TEX)}" for mark, note in grid.lettered_notes]
    lines = [
        r"\begin{table*}",
        r"\centering",
        rf"\caption{{{grid.caption.translate(TEX)}}}",
        rf"\begin{{tabular}}{{l{('l' if grid.textual else 'r') * columns}}}",
        r"\toprule",
        *levels,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        *notes,
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def tex_level(stub: str, level: list[tuple[str, int]]) -> str:
    """One level of the header, with a rule under what spans several columns."""
    cells, rules, column = [stub.translate(TEX)], [], 2
    for text, span in level:
        cells.append(rf"\multicolumn{{{span}}}{{c}}{{{text.translate(TEX)}}}")
        if span > 1:
            rules.append(rf"\cmidrule(lr){{{column}-{column + span - 1}}}")
        column += span
    return "\n".join([" & ".join(cells) + r" \\", *([" ".join(rules)] if rules else [])])


def tex_entry(entry: Entry) -> str:
    """One value in LaTeX."""
    text = entry.text.translate(TEX)
    raised = entry.raised.translate(TEX)
    font = r"\textbf" if entry.bold else r"\textit" if entry.italic else ""
    return (f"{font}{{{text}}}" if font else text) + (rf"\textsuperscript{{{raised}}}" if raised else "")
