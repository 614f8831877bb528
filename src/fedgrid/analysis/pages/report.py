"""Write the report of a study: one HTML file that needs no other, with what was found first."""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedgrid.analysis.figures.embedding import PAGE_IMAGE_BYTES, picture, read, switched_within
from fedgrid.analysis.pages.figure_set import PARTITION_FIGURES
from fedgrid.analysis.pages.table_set import shown_tables
from fedgrid.analysis.prose import adoptions, captions, origin
from fedgrid.analysis.prose.findings import findings
from fedgrid.analysis.scores.cells import WAITING
from fedgrid.analysis.scores.results import Results, load
from fedgrid.analysis.scores.summary import cell_scores, summary
from fedgrid.analysis.tables.grid import templates
from fedgrid.analysis.tables.views import views
from fedgrid.command import run
from fedgrid.files import write_text
from fedgrid.grid.plan.manifest_model import Shown

OF_PARTITIONS = tuple(f"{kind}-" for kind in PARTITION_FIGURES)
"""Prefix of the names of partitions' pictures, which follow those of results."""
ACCURACY = "accuracy"
"""The table that comes first, scored at every point of a round."""
MOST_FINDINGS = 4
"""Number of sentences before the table; those on further columns are one click away."""


def report(results: Results, out_html: Path, tables: Path, figures: Sequence[Path], configfile: str) -> None:
    """Write the page of `results` to `out_html`, with the tables in `tables` and the SVG `figures` in the given order.

    `configfile` is the study's file, for the sentence on how to regenerate. The tables are those of `table_set`, the
    figures those of `figure_set` with their captions (.txt) beside them, of a figure without anything to draw the
    reason alone; `UserError` when one is missing.
    """
    tables_by_name = shown_tables(results)
    drawn = [path for path in figures if path.is_file()]
    page = (
        templates()
        .get_template("report.html.j2")
        .render(
            study=results.study,
            names=results.names,
            column=results.column,
            words=results.heterogeneity_title,
            title=results.title,
            **headline_context(results, tables_by_name.get(ACCURACY)),
            most=MOST_FINDINGS,
            tables={name: Markup(read(tables / f"{name}.html")) for name in tables_by_name if name != ACCURACY},
            pictures=switched_within(
                [picture(path) for path in drawn if not path.name.startswith(OF_PARTITIONS)], PAGE_IMAGE_BYTES
            ),
            partitions=[picture(path) for path in drawn if path.name.startswith(OF_PARTITIONS)],
            undrawn=[read(path.with_suffix(".txt")) for path in figures if path not in drawn],
            failures=[cell for cell in results.cells if cell.status not in ("ok", *WAITING)],
            cells=len(results.to_train),
            finished=len(results.trained),
            progress=captions.progress(results),
            environments=origin.environments(results),
            commit=origin.commit(results),
            adopted=adoptions.adopted(results),
            groups=adoptions.groups(results),
            where_to_run=origin.where_to_run(results),
            steps=origin.steps(results, configfile),
            reservations=origin.reservations(results, configfile),
            text=origin.study_text(configfile),
        )
    )
    write_text(out_html, page)


def from_file(results: Path, out_html: Path, tables: Path, figures: Sequence[Path], configfile: str) -> None:
    """As `report`, of a file of results."""
    report(load(results), out_html, tables, figures, configfile)


def headline_context(results: Results, accuracy: Shown | None) -> dict[str, Any]:
    """What was found, how the numbers are made, and the `accuracy` table if the study shows one.

    Nothing of a study without any result.
    """
    if not results.finished:
        return {"findings": [], "protocol": [], "views": []}
    table = summary(results)
    scored = views(results, accuracy.options) if accuracy else []
    return {
        "findings": findings(results, table),
        "protocol": captions.protocol(results, cell_scores(results), table),
        "views": [replace(view, table=Markup(view.table)) for view in scored],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: RESULTS OUT_HTML --tables DIR --figures FILE.svg … [--configfile YAML]."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.pages.report", description=__doc__)
    parser.add_argument("results", type=Path, help="results.parquet of fedgrid.analysis.scores.collect")
    parser.add_argument("out_html", type=Path, help="report.html to write")
    parser.add_argument("--tables", type=Path, required=True, help="folder that fedgrid.analysis.pages.table_set wrote")
    parser.add_argument("--figures", type=Path, nargs="*", default=[], metavar="FILE.svg", help="in the order to show")
    parser.add_argument("--configfile", default="STUDY.yaml", help="the study's file, as the reader would name it")
    parser.set_defaults(action=from_file)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
