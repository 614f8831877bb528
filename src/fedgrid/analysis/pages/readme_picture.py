"""A study's first answer as one picture, for a README: what was found, and the accuracy table.

OUT_STEM.json has its texts and the keys of the cells that they come from; OUT_STEM.svg is drawn from these texts alone,
so that a test can tell whether picture, texts and study still belong together.
"""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from fedgrid.analysis.prose.findings import findings
from fedgrid.analysis.scores.results import load
from fedgrid.analysis.scores.summary import summary
from fedgrid.analysis.tables.accuracy import Options, make_table
from fedgrid.analysis.tables.common.grid import rendered
from fedgrid.command import run
from fedgrid.files import write_text

STUB, COLUMN, LINE = 110, 172, 26
"""Widths of the column of names and of the others, and height of a line, in pixels."""
OPTIONS = Options(std=True, ranks=True)
"""Of the accuracy table."""
LETTER = 8
"""Width of a letter of the sentences in pixels, on average."""


def picture(results: Path, out_stem: Path) -> None:
    """Write OUT_STEM.json and OUT_STEM.svg of the study of `results`."""
    content = texts(results)
    write_text(Path(f"{out_stem}.json"), json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    write_text(Path(f"{out_stem}.svg"), draw(content))


def texts(file: Path) -> dict[str, Any]:
    """All that the picture says, and the keys of the cells that it is about."""
    results = load(file)
    _, grid = make_table(results, OPTIONS)
    return {
        "title": results.study.title,
        "findings": findings(results, summary(results)),
        "stub": grid.stub,
        "header": grid.header,
        "rows": [[name, [[entry.text, entry.raised, entry.bold] for entry in entries]] for name, entries in grid.rows],
        "keys": sorted(cell.key for cell in results.cells),
    }


def draw(content: dict[str, Any]) -> str:
    """The picture of `texts` as SVG."""
    width = STUB + COLUMN * len(content["header"][-1])
    sentences = [(name, wrap(sentence, width // LETTER)) for name, sentence in content["findings"]]
    layout = {"width": width, "stub_width": STUB, "column": COLUMN, "line": LINE}
    return rendered("picture.svg.j2", **content, **layout, sentences=sentences)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: RESULTS OUT_STEM."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.pages.readme_picture", description=__doc__)
    parser.add_argument("results", type=Path, help="results.parquet of a study")
    parser.add_argument("out_stem", type=Path, help="path of the picture without its suffix")
    parser.set_defaults(action=picture)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
