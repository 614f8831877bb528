"""Everything of one experiment, made from its manifest and its cells: results.parquet, tables, figures and its page.

Run as ``python -m fedgrid.analysis.pages.build MANIFEST``; the output lies beside the manifest.
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from fedgrid.analysis.figures.common.style import Undrawn
from fedgrid.analysis.pages.figure_plan import Drawing, drawings
from fedgrid.analysis.pages.figure_set import draw
from fedgrid.analysis.pages.report import report
from fedgrid.analysis.pages.table_set import write_tables
from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.collect import collect
from fedgrid.analysis.scores.results import Results
from fedgrid.command import run
from fedgrid.files import write_text
from fedgrid.grid.plan.manifest_model import Manifest, read_manifest


def write(manifest: Manifest, folder: Path, configfile: str, made_from: str | None = None) -> Results:
    """Make results.parquet, tables/, figures/ and report.html of the experiment of a manifest in `folder`.

    `made_from` is as in `collect`; figures for which there is nothing yet are left out, and one
    that has nothing to draw is a sentence (.txt) alone.
    """
    page = folder / "report.html"
    page.unlink(missing_ok=True)  # made last, so that everything beside a page is complete
    results = collect(manifest, folder / "results.parquet", made_from)
    figures, tables = folder / "figures", folder / "tables"
    for made in (figures, tables):
        made.mkdir(exist_ok=True)
    write_tables(results, tables)
    drawn = {name: drawing for name, drawing in drawings(results).items() if drawable(drawing, results.finished)}
    for name, drawing in drawn.items():
        try:
            draw(drawing.kind, drawing.source, figures / name, drawing.selection, drawing.options)
        except Undrawn as nothing:
            write_text(figures / f"{name}.txt", f"{nothing}\n")
    report(results, page, tables, [figures / f"{name}.svg" for name in drawn], configfile)
    return results


def drawable(figure: Drawing, finished: list[FinishedCell]) -> bool:
    """Whether a figure has its partition, or any of the `finished` cells that it is of."""
    if isinstance(figure.source, Path):
        return figure.source.is_file()
    named = ({"method": cell.method, "data": cell.data}.items() for cell in finished)
    return not figure.selection or any(figure.selection.items() <= names for names in named)


def from_manifest(file: Path, configfile: str) -> None:
    """Make tables, figures and page of a manifest's experiment, beside the manifest."""
    write(read_manifest(file), file.parent, configfile, made_from=file.name)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: MANIFEST [--configfile YAML]."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.pages.build", description="Make tables, figures and page.")
    parser.add_argument("file", type=Path, metavar="MANIFEST", help="of an experiment whose cells are all finished")
    parser.add_argument("--configfile", default="STUDY.yaml", help="the study's file, as the reader would name it")
    parser.set_defaults(action=from_manifest)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
