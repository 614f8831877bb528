"""Write the report of a study: one HTML file that needs no other, with what was found first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedgrid.analysis import kinds
from fedgrid.analysis.figures.common.embedding import PAGE_IMAGE_BYTES, picture, read, switched_within
from fedgrid.analysis.pages.figure_set import is_of_partition
from fedgrid.analysis.pages.table_set import shown_tables
from fedgrid.analysis.pages.views import views
from fedgrid.analysis.prose import captions, origin
from fedgrid.analysis.prose.findings import findings
from fedgrid.analysis.scores.cells import WAITING
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import cell_scores, summary
from fedgrid.analysis.tables.common.grid import rendered
from fedgrid.analysis.tables.common.pivot import STATISTICS
from fedgrid.files import write_text
from fedgrid.grid.plan.manifest_model import Shown

PARTITION_PREFIXES = tuple(f"{kind}-" for kind in kinds.names("figures") if is_of_partition(kind))
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
    page = rendered(
        "report.html.j2",
        study=results.study,
        names=results.names,
        column=results.column,
        words=results.heterogeneity_title,
        title=results.title,
        **headline_context(results, tables_by_name.get(ACCURACY)),
        most=MOST_FINDINGS,
        tables={name: Markup(read(tables / f"{name}.html")) for name in tables_by_name if name != ACCURACY},
        pictures=switched_within(
            [picture(path) for path in drawn if not path.name.startswith(PARTITION_PREFIXES)], PAGE_IMAGE_BYTES
        ),
        partitions=[picture(path) for path in drawn if path.name.startswith(PARTITION_PREFIXES)],
        undrawn=[read(path.with_suffix(".txt")) for path in figures if path not in drawn],
        failures=[cell for cell in results.cells if cell.status not in ("ok", *WAITING)],
        cells=len(results.to_train),
        finished=len(results.trained),
        progress=captions.progress(results),
        environments=origin.environments(results),
        **origin.regeneration(results, configfile),
    )
    write_text(out_html, page)


def headline_context(results: Results, accuracy: Shown | None) -> dict[str, Any]:
    """What was found, how the numbers are made, and the `accuracy` table if the study shows one.

    Nothing of a study without any result.
    """
    if not results.finished:
        return {"findings": [], "protocol": [], "views": []}
    table = summary(results)
    several = len(results.study.seeds) > 1
    return {
        "findings": findings(results, table),
        "protocol": captions.protocol(
            results, cell_scores(results), table, True, [STATISTICS["std"].explained(several)]
        ),
        "views": views(results, kinds.chosen("tables", ACCURACY, accuracy.options)) if accuracy else [],
    }
