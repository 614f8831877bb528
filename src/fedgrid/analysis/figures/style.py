"""How every figure looks, and how it is saved: the same bytes for the same results.

Figures are made without pyplot, so that no global state and no display is involved.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from fedgrid.errors import UserError
from fedgrid.files import replacing, write_text

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"]
"""Okabe and Ito's palette, which colour-blind readers can tell apart, without its yellow (too pale on white)."""
DASHES = ["-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5))]
TRAIN, TEST = COLOURS[4], COLOURS[1]
GREY = "#666666"
LARGEST = 200_000
"""Bytes of a drawing above which a page takes an image of points."""
RASTER, DPI = ".png", 144
DATED = {"pdf": "CreationDate", "svg": "Date", "png": "Software"}
"""Form of a file → what would differ from one day or machine to the next."""
RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # shipped with matplotlib: the same letters on every machine
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # a name with a dollar sign is a name
    "svg.hashsalt": "fedgrid",
    "pdf.fonttype": 42,
}


class Undrawn(UserError):
    """A figure for which there is nothing to draw; the message says why."""


def drawing() -> AbstractContextManager[None]:
    """The context in which figures are made and saved."""
    return rc_context(RC)


def line_style(i: int) -> dict[str, Any]:
    """Colour and dashes of the i-th method: 28 that differ; neighbours differ in both, so that equal curves show."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def save(figure: Figure, stem: Path, title: str, caption: str) -> None:
    """Write STEM.svg and STEM.pdf, and STEM.txt with the title on its first line and the caption below.

    Of a drawing above `LARGEST`, an image of points too: pages take that.
    """
    write_text(Path(f"{stem}.txt"), f"{title}\n\n{caption}\n")
    for form in ("pdf", "svg"):
        write_figure(figure, Path(f"{stem}.{form}"), title)
    if Path(f"{stem}.svg").stat().st_size > LARGEST:
        write_figure(figure, Path(f"{stem}{RASTER}"), title)


def write_figure(figure: Figure, file: Path, title: str) -> None:
    """Write a figure without the date, in the form that the file's name ends with."""
    form = file.suffix[1:]
    metadata, dpi = {DATED[form]: None, "Title": title}, DPI if form == RASTER[1:] else "figure"
    with replacing(file) as temporary:
        figure.savefig(temporary, format=form, metadata=metadata, bbox_inches="tight", pad_inches=0.06, dpi=dpi)
