"""Write the report of a study: one HTML file that needs no other."""

import json
from argparse import ArgumentParser
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedgrid.analysis import captions
from fedgrid.analysis.layout import templates
from fedgrid.analysis.results import WAITING, Results, load
from fedgrid.command import run
from fedgrid.errors import UserError
from fedgrid.files import write_text


@dataclass(frozen=True)
class Picture:
    """A figure of the report: its title and caption, and the SVG as a data URI."""

    title: str
    caption: str
    uri: str


def report(results: Path, out_html: Path, tables: Path, figures: Sequence[Path], configfile: str) -> None:
    """Write the study of `results` to `out_html`, with the tables in `tables` and the SVG `figures` in the given order.

    `configfile` is the study's file, for the sentence on how to regenerate. The tables are those of `tables.py`, the
    figures those of `figures.py` with their captions (.txt) beside them; `UserError` when one is missing.
    """
    study = load(results)
    page = (
        templates()
        .get_template("report.html.j2")
        .render(
            study=study.study,
            names=study.names,
            words=study.words,
            title=study.title,
            accuracy=Markup(read(tables / "accuracy.html")),
            costs=Markup(read(tables / "costs.html")),
            pictures=[picture(path) for path in figures],
            failures=[cell for cell in study.cells if cell["status"] not in ("ok", *WAITING)],
            cells=len(study.cells),
            finished=len(study.finished),
            progress=captions.progress(study),
            environments=environments(study),
            configfile=configfile,
        )
    )
    write_text(out_html, page)


def read(path: Path) -> str:
    """The text of a file that the report needs."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"the report needs {path}, which does not exist.") from None


def picture(svg: Path) -> Picture:
    """A figure with the caption beside it. As an image of its own, its ids cannot clash with those of another one."""
    title, caption = read(svg.with_suffix(".txt")).split("\n\n", 1)
    return Picture(title, caption.strip(), "data:image/svg+xml;base64," + b64encode(read(svg).encode()).decode())


def environments(results: Results) -> list[tuple[int, dict[str, Any]]]:
    """The different versions and hardware that cells ran on, with their number of cells, most common first."""
    found = Counter(json.dumps([cell["versions"], cell["hardware"]]) for cell in results.finished)
    return [
        (count, dict(zip(["versions", "hardware"], json.loads(environment), strict=True)))
        for environment, count in found.most_common()
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: RESULTS OUT_HTML --tables DIR --figures FILE.svg … [--configfile YAML]."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.report", description=__doc__)
    parser.add_argument("results", type=Path, help="results.parquet of fedgrid.analysis.collect")
    parser.add_argument("out_html", type=Path, help="report.html to write")
    parser.add_argument("--tables", type=Path, required=True, help="folder that fedgrid.analysis.tables wrote")
    parser.add_argument("--figures", type=Path, nargs="*", default=[], metavar="FILE.svg", help="in the order to show")
    parser.add_argument("--configfile", default="STUDY.yaml", help="the study's file, as the reader would name it")
    parser.set_defaults(action=report)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
