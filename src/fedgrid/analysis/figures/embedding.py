"""Figures as parts of a page, which asks for no other file."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedgrid.analysis.figures.style import RASTER
from fedgrid.errors import UserError

TYPES = {".svg": "svg+xml", ".png": "png"}


@dataclass(frozen=True)
class Picture:
    """A figure: title, caption, more to say, and the images as data URIs, one for narrow screens if any.

    Without an image it says only where it is.
    """

    title: str
    caption: str
    more: str
    uri: str
    narrow: str


def read(path: Path) -> str:
    """The text of a file that a page needs."""
    return content(path).decode()


def content(path: Path) -> bytes:
    """The text of a file that a page needs; `UserError` where it is missing."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"the report needs {path}, which does not exist.") from None


def picture(svg: Path) -> Picture:
    """A figure with the caption beside it. As an image of its own, its ids cannot clash with those of another one.

    Uses the image of points beside the drawing if there is one: it is smaller.
    """
    title, caption, *more = read(svg.with_suffix(".txt")).strip().split("\n\n")
    narrow, points = svg.with_suffix(".narrow.svg"), svg.with_suffix(RASTER)
    image = points if points.is_file() else svg
    return Picture(title, caption, " ".join(more), uri(image), uri(narrow) if narrow.is_file() else "")


def uri(image: Path) -> str:
    """An image as part of the page."""
    return f"data:image/{TYPES[image.suffix]};base64," + b64encode(content(image)).decode()


def within(pictures: Sequence[Picture], room: int) -> list[Picture]:
    """The pictures, without their images from the one on at which they would take more than `room` bytes together."""
    chosen = []
    for picture in pictures:
        room -= len(picture.uri) + len(picture.narrow)
        chosen.append(picture if room >= 0 else replace(picture, uri="", narrow=""))
    return chosen
