"""How every figure looks, and how it is saved: the same bytes for the same results.

Figures are made without pyplot, so that no global state and no display is involved.
"""

import re
from contextlib import AbstractContextManager
from math import ceil, isqrt
from pathlib import Path
from re import Match
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from fedgrid.errors import UserError
from fedgrid.files import replacing, write_text

LARGEST_DRAWING = 200_000
"""Bytes of a drawing above which a page takes an image of points."""
RASTER, DPI = ".png", 144
NARROW, COLOURS = ".narrow.svg", ".colours"
"""What follows a figure's name in the drawing for narrow screens, and in those with all lines in colour."""
MOST_ACROSS = 4
"""Panels in a line, at most."""
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

ABOVE: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom"}
"""Of a text so many points above something."""
WHISKERS: dict[str, Any] = {"fmt": "none", "ecolor": "#333333"}

POSITIONS = re.compile(r'^(?:.* d=")?[MLCQ] [-\d. ]+$', re.MULTILINE)
"""Lines of a drawing's paths, which matplotlib writes to millionths of a point; hundredths make a smaller file."""


Drawn = tuple[Figure, str, str]
"""A figure, its title and its caption."""


class Undrawn(UserError):
    """A figure for which there is nothing to draw; the message says why."""


def drawing() -> AbstractContextManager[None]:
    """The context in which figures are made and saved."""
    return rc_context(RC)


def columns_of_panels(panels: int) -> int:
    """How many panels stand in a line, so that the last line is nearly full: of four panels, two."""
    return min(MOST_ACROSS, ceil(panels / isqrt(panels)))


def save(figure: Figure, stem: Path, title: str, caption: str) -> None:
    """Write STEM.svg and STEM.pdf, and STEM.txt with the title on its first line and the caption below.

    Of a drawing above `LARGEST_DRAWING`, an image of points too if it is smaller: pages take that.
    """
    write_text(Path(f"{stem}.txt"), f"{title}\n\n{caption}\n")
    write_forms(figure, stem, title)


def write_forms(figure: Figure, stem: Path, title: str) -> None:
    """Write the drawings of `save` without its text."""
    for form in ("pdf", "svg"):
        write_figure(figure, Path(f"{stem}.{form}"), title)
    svg, points = Path(f"{stem}.svg"), Path(f"{stem}{RASTER}")
    points.unlink(missing_ok=True)
    if svg.stat().st_size > LARGEST_DRAWING:
        write_figure(figure, points, title)
        if points.stat().st_size > svg.stat().st_size:
            points.unlink()


def write_figure(figure: Figure, file: Path, title: str) -> None:
    """Write a figure without the date, in the form that the file's name ends with."""
    form = file.suffix[1:]
    metadata, dpi = {DATED[form]: None, "Title": title}, DPI if form == RASTER[1:] else "figure"
    with replacing(file) as temporary:
        figure.savefig(temporary, format=form, metadata=metadata, bbox_inches="tight", pad_inches=0.06, dpi=dpi)
        if form == "svg":
            text = temporary.read_text(encoding="utf-8")
            temporary.write_text(POSITIONS.sub(rounded, text), encoding="utf-8")


def rounded(positions: Match[str]) -> str:
    """A line of positions of a drawing, in hundredths of a point."""
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), positions[0])
