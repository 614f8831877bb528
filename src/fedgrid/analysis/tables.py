"""Write the tables of a study, accuracy and costs, as CSV, Markdown, LaTeX and HTML."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedgrid.analysis import captions
from fedgrid.analysis.costs import costs, costs_grid
from fedgrid.analysis.layout import Entry, Grid, html, latex, letter, markdown
from fedgrid.analysis.results import ROW, WAITING, Results, load
from fedgrid.analysis.scores import NOTHING_YET, SCORED, cell_scores, summary
from fedgrid.analysis.words import percent
from fedgrid.command import run
from fedgrid.files import write_text


def write_tables(results: Path, outdir: Path) -> None:
    """Write accuracy.{csv,md,tex,html} and costs.{csv,md,tex,html} to `outdir`.

    The CSV files hold every number in full precision: accuracies as fractions, one row an entry (see `scores.summary`
    and `costs.costs`). accuracy.html comes last: it is what the report asks for, so where it stands, the others do.
    Raises `UserError` when `results` is not a file that `collect` wrote.
    """
    study = load(results)
    table = summary(study)
    cost = costs(study)
    for name, numbers, grid in (
        ("costs", cost, costs_grid(study, cost)),
        ("accuracy", table, accuracy_grid(study, cell_scores(study), table)),
    ):
        write_text(outdir / f"{name}.csv", csv(numbers))
        write_text(outdir / f"{name}.md", markdown(grid))
        write_text(outdir / f"{name}.tex", latex(grid))
        write_text(outdir / f"{name}.html", html(grid))


def csv(table: pd.DataFrame) -> str:
    """A tidy table as CSV; an empty field is a number that does not exist."""
    return table.to_csv(index=False, lineterminator="\n")


def accuracy_grid(results: Results, scores: pd.DataFrame, table: pd.DataFrame) -> Grid:
    """`scores.summary` as a table to print: methods as rows, data × heterogeneity as column groups."""
    caption = captions.accuracy_table(results, scores, table)
    notes = footnotes(results, scores, table)
    texts = list(dict.fromkeys(notes.values()))
    entries = {tuple(entry[name] for name in ROW): entry for entry in table.to_dict("records")}
    rows = [
        (
            name,
            [
                printed
                for column in results.columns
                for printed in accuracy_entries(entries[label, *column], notes.get((label, *column)), texts)
            ],
        )
        for label, name in results.names.items()
    ]
    return Grid(caption, "Method", accuracy_header(results), rows, texts)


def accuracy_header(results: Results) -> list[list[tuple[str, int]]]:
    """Three levels: data sets, heterogeneities, the two numbers."""
    groups = dict.fromkeys(data for data, _ in results.columns)
    return [
        [(results.title(data), 2 * len(results.heterogeneities(data))) for data in groups],
        [(results.words(heterogeneity), 2) for data in groups for heterogeneity in results.heterogeneities(data)],
        [("Acc. (%)", 1), ("Std. over clients (%)", 1)] * len(results.columns),
    ]


def accuracy_entries(entry: dict[str, Any], note: str | None, texts: list[str]) -> list[Entry]:
    """The two printed values of one entry, the first with its rank's mark and its footnote's letter."""
    notes = letter(texts.index(note)) if note else ""
    if entry["status"] in ("missing", "unscored", *NOTHING_YET):
        return [Entry(notes=notes), Entry()]
    if entry["status"] not in SCORED:
        return [Entry(entry["status"], notes=notes), Entry()]
    accuracy = f"{percent(entry['accuracy'])} ± {percent(entry['accuracy_std_seeds'])}"
    mark = captions.RANK_MARKS.get(entry["rank"], "")
    return [Entry(accuracy, mark, notes, bold=entry["supported"]), Entry(percent(entry["std_clients"]))]


def footnotes(results: Results, scores: pd.DataFrame, table: pd.DataFrame) -> dict[tuple[str, ...], str]:
    """(label, data, heterogeneity) → what must be said below the table: seeds that failed, or seeds that are absent."""
    planned = len(results.study["seeds"])
    notes = {
        tuple(entry[name] for name in ROW): [f"mean over {entry['seeds']} of {planned} seeds"]
        for entry in table.to_dict("records")
        if entry["status"] in SCORED and entry["seeds"] < planned
    }
    failed = scores[~scores["status"].isin(["ok", *WAITING])].groupby([*ROW, "status", "reason"], sort=False)
    for (*entry, status, reason), cells in failed:
        seeds = f"{'seed' if len(cells) == 1 else 'seeds'} {captions.listing(map(str, cells['seed']))}"
        notes.setdefault(tuple(entry), []).append(f"{seeds} {status}: {reason.rstrip('.')}")
    return {entry: "; ".join(parts) + "." for entry, parts in notes.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: RESULTS OUTDIR."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.tables", description=__doc__)
    parser.add_argument("results", type=Path, help="results.parquet of fedgrid.analysis.collect")
    parser.add_argument("outdir", type=Path, help="folder for the tables")
    parser.set_defaults(action=write_tables)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
