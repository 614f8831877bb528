"""Write the tables of an experiment as CSV, Markdown, LaTeX and HTML."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedgrid.analysis import kinds
from fedgrid.analysis.papers.agreement import agreement
from fedgrid.analysis.papers.claims import claims
from fedgrid.analysis.papers.published import join_printed_numbers, printed_table
from fedgrid.analysis.prose.adoptions import adopted
from fedgrid.analysis.prose.imports import imported
from fedgrid.analysis.scores.results import Results, choose
from fedgrid.analysis.tables.common.grid import Table, html, latex, markdown
from fedgrid.files import write_text
from fedgrid.grid.plan.manifest_model import Shown

DEFAULT_TABLES = [Shown("accuracy", {"std": True, "ranks": True}), Shown("costs")]
"""What a study shows that does not say."""
SEARCH_TABLES = [Shown("search"), Shown("budgets")]
"""What it shows besides where settings are searched."""
OWN_TABLES = [Shown("against")]
"""What it shows besides where a method is in a file of the user's own."""

FORMULA = ("=", "+", "-", "@", "\t", "\n")
"""With these a text begins that a spreadsheet may take for a formula."""


def write_tables(results: Results, outdir: Path) -> None:
    """Write every table of `results` to `outdir`, each as NAME.{csv,md,tex,html}; see `tables` for the names.

    The CSV files hold every number in full precision, accuracies as fractions, one row an entry. Raises `UserError`
    when the study asks for a table that does not exist.
    """
    for name, (numbers, grid) in tables(results):
        texts = {"csv": csv(numbers), "md": markdown(grid), "tex": latex(grid), "html": html(grid)}
        for form, text in texts.items():
            write_text(outdir / f"{name}.{form}", text)


def tables(results: Results) -> Iterator[tuple[str, Table]]:
    """The tables that the study shows, in that order, by the name of their files; last printed numbers and claims.

    The caption of a table of numbers says which cells were adopted from earlier code, and what came from elsewhere.
    """
    for name, shown_table in shown_tables(results).items():
        table = make_table(results, shown_table)
        yield name, _with_origins(results, table) if kinds.options("tables", shown_table.kind).needs_cells else table
    if results.published:
        numbers = join_printed_numbers(results)
        yield "printed", _with_origins(results, printed_table(results, numbers))
        yield "agreement", _with_origins(results, agreement(results, numbers))
    if results.study.claims:
        yield "claims", _with_origins(results, claims(results))


def make_table(results: Results, shown: Shown) -> Table:
    """A table of a kind, with the options that the study gives."""
    table: Table
    table = kinds.module("tables", shown.kind).make_table(results, kinds.chosen("tables", shown.kind, shown.options))
    return table


def _with_origins(results: Results, table: Table) -> Table:
    numbers, grid = table
    return numbers, replace(grid, caption=" ".join([grid.caption, *adopted(results), *imported(results)]))


def shown_tables(results: Results) -> dict[str, Shown]:
    """The tables that the study shows, by the name of their files; without cells, only those that need none.

    Names are kinds, with a number behind the second of a kind and those after it. `UserError` for an unknown kind.
    """
    counts: Counter[str] = Counter()
    tables = {}
    searched, own = bool(results.study.searches), bool(results.own) and len(results.names) > 1
    usual = DEFAULT_TABLES + SEARCH_TABLES * searched + OWN_TABLES * own
    for table in results.study.shown("table", usual):
        kind = choose(table.kind, kinds.names("tables"), "kind of table")
        if results.cells or not kinds.options("tables", kind).needs_cells:
            counts[kind] += 1
            tables[kind + (f"-{counts[kind]}" if counts[kind] > 1 else "")] = table
    return tables


def csv(table: pd.DataFrame) -> str:
    """A tidy table as CSV; an empty field is a number that does not exist.

    A text that a spreadsheet would run as a formula has an apostrophe in front of it, by which it shows it as it is.
    """
    texts = table.select_dtypes(exclude=["number", "bool"]).map(_inert)
    contents: str = table.assign(**texts).rename(columns=_inert).to_csv(index=False, lineterminator="\n")
    return contents


def _inert(value: Any) -> Any:
    """The value, with an apostrophe in front of a text that starts like a formula and is not a number."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r", "\n")  # which is quoted; after a bare \r a spreadsheet would begin a row
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
