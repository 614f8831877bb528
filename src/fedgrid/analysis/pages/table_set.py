"""Write the tables of an experiment as CSV, Markdown, LaTeX and HTML."""

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedgrid.analysis.papers.agreement import agreement
from fedgrid.analysis.papers.claims import claims
from fedgrid.analysis.papers.published import join_printed_numbers, printed_table
from fedgrid.analysis.prose.adoptions import adopted
from fedgrid.analysis.prose.imports import imported
from fedgrid.analysis.scores.results import Results, choose, load
from fedgrid.analysis.tables.accuracy import accuracy
from fedgrid.analysis.tables.attacks import attacks
from fedgrid.analysis.tables.budgets import budgets
from fedgrid.analysis.tables.classes import classes
from fedgrid.analysis.tables.costs import costs, costs_grid
from fedgrid.analysis.tables.grid import Grid, html, latex, markdown
from fedgrid.analysis.tables.new_clients import new_clients
from fedgrid.analysis.tables.phases import phases
from fedgrid.analysis.tables.protocol import settings
from fedgrid.analysis.tables.rounds import rounds
from fedgrid.analysis.tables.search import search
from fedgrid.analysis.tables.traffic import traffic
from fedgrid.command import run
from fedgrid.files import write_text
from fedgrid.grid.plan.manifest_model import Shown

Table = tuple[pd.DataFrame, Grid]
"""The numbers in full precision, one row an entry, and the table to print."""


def costs_table(results: Results, options: Mapping[str, Any]) -> Table:
    """What the rows cost; there is nothing to choose."""
    table = costs(results)
    return table, costs_grid(results, table)


KINDS: dict[str, Callable[[Results, Mapping[str, Any]], Table]] = {
    "accuracy": accuracy,
    "attacks": attacks,
    "classes": classes,
    "new_clients": new_clients,
    "rounds": rounds,
    "phases": phases,
    "bytes": traffic,
    "costs": costs_table,
    "settings": settings,
    "search": search,
    "budgets": budgets,
}
"""`table` of an entry of `show` → what makes it."""
WITHOUT_CELLS = ("settings",)
"""Kinds of tables that are about the study itself."""
DEFAULT_TABLES = [Shown("accuracy", {"std": True, "ranks": True}), Shown("costs")]
"""What a study shows that does not say."""
OF_SEARCHES = [Shown("search"), Shown("budgets")]
"""What it shows besides where settings are searched."""

FORMULA = ("=", "+", "-", "@", "\t", "\n")
"""With these a text begins that a spreadsheet may take for a formula."""


def write_tables(results: Results, outdir: Path) -> None:
    """Write every table of `results` to `outdir`, each as NAME.{csv,md,tex,html}; see `tables` for the names.

    The CSV files hold every number in full precision, accuracies as fractions, one row an entry. Raises `UserError`
    when the study asks for a table that does not exist.
    """
    for name, (numbers, grid) in tables(results):
        write_text(outdir / f"{name}.csv", csv(numbers))
        write_text(outdir / f"{name}.md", markdown(grid))
        write_text(outdir / f"{name}.tex", latex(grid))
        write_text(outdir / f"{name}.html", html(grid))


def tables(results: Results) -> Iterator[tuple[str, Table]]:
    """The tables that the study shows, in that order, by the name of their files; last printed numbers and claims.

    The caption of a table of numbers says which cells were adopted from earlier code, and what came from elsewhere.
    """
    for name, shown_table in shown_tables(results).items():
        table = KINDS[shown_table.kind](results, shown_table.options)
        yield name, table if shown_table.kind in WITHOUT_CELLS else _with_origins(results, table)
    if results.published:
        numbers = join_printed_numbers(results)
        yield "printed", _with_origins(results, printed_table(results, numbers))
        yield "agreement", _with_origins(results, agreement(results, numbers))
    if results.study.claims:
        yield "claims", _with_origins(results, claims(results))


def _with_origins(results: Results, table: Table) -> Table:
    numbers, grid = table
    return numbers, replace(grid, caption=" ".join([grid.caption, *adopted(results), *imported(results)]))


def shown_tables(results: Results) -> dict[str, Shown]:
    """The tables that the study shows, by the name of their files; without cells, only those that need none.

    Names are kinds, with a number behind the second of a kind and those after it. `UserError` for an unknown kind.
    """
    counts: Counter[str] = Counter()
    tables = {}
    for table in results.study.shown("table", DEFAULT_TABLES + (OF_SEARCHES if results.study.searches else [])):
        kind = choose(table.kind, list(KINDS), "kind of table")
        if results.cells or kind in WITHOUT_CELLS:
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


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: RESULTS OUTDIR."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.pages.table_set", description=__doc__)
    parser.add_argument("results", type=Path, help="results.parquet of fedgrid.analysis.scores.collect")
    parser.add_argument("outdir", type=Path, help="folder for the tables")
    parser.set_defaults(action=lambda results, outdir: write_tables(load(results), outdir))
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
