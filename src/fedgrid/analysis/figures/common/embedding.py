"""Figures as parts of a page, which asks for no other file."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedgrid.analysis.figures.common.style import COLOURS, NARROW, RASTER
from fedgrid.errors import UserError
from fedgrid.files import slug

PAGE_IMAGE_BYTES = 2_000_000
"""Bytes that the pictures of a page may take together."""
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
    coloured: str = ""
    "The image with all lines in colour, where some are grey in the first one."
    coloured_narrow: str = ""
    name: str = ""
    "No other figure of a page has it."


def read(path: Path) -> str:
    """The text of a file that a page needs; `UserError` where it is missing."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        raise UserError(f"the report needs {path}, which does not exist.") from None


def picture(svg: Path) -> Picture:
    """A figure with the caption beside it. As an image of its own, its ids cannot clash with those of another one."""
    title, caption, *more = read(svg.with_suffix(".txt")).strip().split("\n\n")
    stem = svg.with_suffix("")
    coloured = Path(f"{stem}{COLOURS}")
    return Picture(
        title,
        caption,
        " ".join(more),
        image(stem),
        uri(Path(f"{stem}{NARROW}")),
        image(coloured),
        uri(Path(f"{coloured}{NARROW}")),
        slug(f"{svg.absolute().parent.parent.name}-{stem.name}"),
    )


def image(stem: Path) -> str:
    """The drawing of that name as part of the page, or the image of points beside it: it is smaller."""
    points = Path(f"{stem}{RASTER}")
    return uri(points if points.is_file() else Path(f"{stem}.svg"))


def uri(image: Path) -> str:
    """An image as part of the page; empty where there is none."""
    return (
        f"data:image/{TYPES[image.suffix]};base64,{b64encode(image.read_bytes()).decode()}" if image.is_file() else ""
    )


def within(pictures: Sequence[Picture], room: int) -> list[Picture]:
    """The pictures, without their images from the one on at which they would take more than `room` bytes together.

    What room is left then is for those with all lines in colour.
    """
    chosen, left = [], room
    for picture in pictures:
        left -= len(picture.uri) + len(picture.narrow)
        chosen.append(picture if left >= 0 else replace(picture, uri="", narrow=""))
    return switched_within(chosen, room)


def switched_within(pictures: Sequence[Picture], room: int) -> list[Picture]:
    """The pictures, without their second images, all in colour, from the one on at which there is no room for them."""
    room -= sum(len(picture.uri) + len(picture.narrow) for picture in pictures)
    chosen = []
    for picture in pictures:
        room -= len(picture.coloured) + len(picture.coloured_narrow)
        chosen.append(picture if room >= 0 else replace(picture, coloured="", coloured_narrow=""))
    return chosen
