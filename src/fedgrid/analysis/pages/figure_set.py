"""Draw a figure of results or of a partition (OUT_STEM.svg, .pdf, .txt: caption)."""

from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fedgrid.analysis.figures.ablation import ablation
from fedgrid.analysis.figures.bars import bars
from fedgrid.analysis.figures.calibration import calibration
from fedgrid.analysis.figures.confusion import confusion
from fedgrid.analysis.figures.curves import curves, loss
from fedgrid.analysis.figures.distribution import distribution
from fedgrid.analysis.figures.emphasis import has_muted
from fedgrid.analysis.figures.heatmap import heatmap
from fedgrid.analysis.figures.partitions import bubbles, shares
from fedgrid.analysis.figures.style import COLOURS, NARROW, RASTER, drawing, save, write_figure, write_forms
from fedgrid.analysis.figures.sweep import sweep
from fedgrid.analysis.figures.traffic import traffic
from fedgrid.analysis.figures.trust import trust
from fedgrid.analysis.figures.tsne import tsne
from fedgrid.analysis.prose.imports import imported
from fedgrid.analysis.scores.results import Results, load
from fedgrid.command import run

Source = Results | Path
"""What a figure is drawn from: results, or the file of a partition."""
Kind = Callable[..., tuple[Figure, str, str]]
"""Draws: takes the results, or the file of a partition, what the figure is of, and its options by name."""
LINE_FIGURES: dict[str, Kind] = {"curves": curves, "loss": loss, "traffic": traffic, "sweep": sweep, "trust": trust}
"""Kinds that are of a data set and are drawn for narrow screens too."""
DATA_SET_FIGURES: dict[str, Kind] = {
    **LINE_FIGURES,
    "bars": bars,
    "tsne": tsne,
    "heatmap": heatmap,
    "confusion": confusion,
    "calibration": calibration,
}
"""Kinds that are of a data set."""
METHOD_FIGURES: dict[str, Kind] = {"ablation": ablation}
"""Kinds that are of a method on a data set."""
STUDY_FIGURES: dict[str, Kind] = {"distribution": distribution}
"""Kinds that show a whole study."""
PARTITION_FIGURES: dict[str, Kind] = {"partition": bubbles, "shares": shares}
"""Kinds that are drawn from a partition's file, under a title."""
KINDS = {**DATA_SET_FIGURES, **METHOD_FIGURES, **STUDY_FIGURES, **PARTITION_FIGURES}
SUBJECTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(DATA_SET_FIGURES, ("data",)),
    **dict.fromkeys(METHOD_FIGURES, ("method", "data")),
    **dict.fromkeys(STUDY_FIGURES, ()),
    **dict.fromkeys(PARTITION_FIGURES, ("title",)),
}
"""Kind → the names of what its figures are of."""


def draw(
    kind: str, source: Source, out_stem: Path, selection: Mapping[str, str], options: Mapping[str, Any] = {}
) -> None:
    """Draw one figure, and of lines OUT_STEM.narrow.svg for narrow screens.

    Where some lines are grey, OUT_STEM.colours is the same figure with all of them in colour.
    `source` is results or the file of a partition, `selection` says what of them is drawn (see `SUBJECTS`), `options`
    are those of the kind. Raises `UserError` where they ask for what is not there, and `Undrawn` where there is nothing
    to draw.
    """
    for variant, form in product(("", COLOURS), (".svg", ".pdf", RASTER, NARROW)):  # of an earlier drawing
        Path(f"{out_stem}{variant}{form}").unlink(missing_ok=True)
    with drawing():
        figure, title, caption = KINDS[kind](source, **selection, **options)
        save(figure, out_stem, title, with_origins(source, caption))
        if kind not in LINE_FIGURES:
            return
        lines = partial(LINE_FIGURES[kind], source, **selection, **options)
        write_figure(lines(narrow=True)[0], Path(f"{out_stem}{NARROW}"), title)
        if has_muted(figure):
            write_forms(lines(colours=True)[0], Path(f"{out_stem}{COLOURS}"), title)
            write_figure(lines(narrow=True, colours=True)[0], Path(f"{out_stem}{COLOURS}{NARROW}"), title)


def with_origins(source: Source, caption: str) -> str:
    """The caption of a figure of results, whose first paragraph also says what of them came from elsewhere."""
    first, *others = caption.split("\n\n")
    origins = imported(source) if isinstance(source, Results) else []
    return "\n\n".join([" ".join([first, *origins]), *others])


def from_file(kind: str, source: Path, out_stem: Path, **selection: str) -> None:
    """Draw one figure of a file of results, or of a partition."""
    draw(kind, source if kind in PARTITION_FIGURES else load(source), out_stem, selection)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: KIND SOURCE OUT_STEM with what the figure is of."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.pages.figure_set", description=__doc__)
    kinds = parser.add_subparsers(required=True)
    for name, subjects in SUBJECTS.items():
        kind = kinds.add_parser(name, help=KINDS[name].__doc__, description=KINDS[name].__doc__)
        kind.add_argument("source", type=Path, metavar="PARTITION" if name in PARTITION_FIGURES else "RESULTS")
        kind.add_argument("out_stem", type=Path, metavar="OUT_STEM", help="path of the figure without its suffix")
        for selection in subjects:
            kind.add_argument(f"--{selection}", required=True)
        kind.set_defaults(action=partial(from_file, name))
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
