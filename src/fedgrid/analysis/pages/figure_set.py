"""Draw a figure of results or of a partition (OUT_STEM.svg, .pdf, .txt: caption)."""

from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.analysis import kinds
from fedgrid.analysis.figures.common.emphasis import has_muted
from fedgrid.analysis.figures.common.style import COLOURS, NARROW, RASTER, drawing, save, write_figure, write_forms
from fedgrid.analysis.prose.imports import imported
from fedgrid.analysis.scores.results import Results

Source = Results | Path
"""What a figure is drawn from: results, or the file of a partition."""


def draw(
    kind: str, source: Source, out_stem: Path, selection: Mapping[str, str], options: Mapping[str, Any] = {}
) -> None:
    """Draw one figure, and of lines OUT_STEM.narrow.svg for narrow screens.

    Where some lines are grey, OUT_STEM.colours is the same figure with all of them in colour.
    `source` is results or the file of a partition, `selection` says what of them is drawn, `options` are those
    of the kind. Raises `UserError` where they ask for what is not there, and `Undrawn` where there is nothing
    to draw.
    """
    for variant, form in product(("", COLOURS), (".svg", ".pdf", RASTER, NARROW)):  # of an earlier drawing
        Path(f"{out_stem}{variant}{form}").unlink(missing_ok=True)
    chosen = kinds.chosen("figures", kind, options)
    make = partial(kinds.module("figures", kind).draw_figure, source, chosen, **selection)
    with drawing():
        figure, title, caption = make()
        save(figure, out_stem, title, with_origins(source, caption))
        if not chosen.of_lines:
            return
        write_figure(make(narrow=True)[0], Path(f"{out_stem}{NARROW}"), title)
        if has_muted(figure):
            write_forms(make(colours=True)[0], Path(f"{out_stem}{COLOURS}"), title)
            write_figure(make(narrow=True, colours=True)[0], Path(f"{out_stem}{COLOURS}{NARROW}"), title)


def with_origins(source: Source, caption: str) -> str:
    """The caption of a figure of results, whose first paragraph also says what of them came from elsewhere."""
    first, *others = caption.split("\n\n")
    origins = imported(source) if isinstance(source, Results) else []
    return "\n\n".join([" ".join([first, *origins]), *others])


def is_of_partition(kind: str) -> bool:
    """Whether figures of a kind are drawn from a partition's file."""
    return str(kinds.options("figures", kind).subject) == "partition"
