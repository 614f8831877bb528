"""Pictures to arrays: decoded from their files' bytes, resized."""

from collections import Counter
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedgrid.errors import UserError

if TYPE_CHECKING:
    import PIL.Image

MODES = {1: "L", 3: "RGB"}
"Pillow's name of a picture with so many channels."
LOSSES = {
    "transparency is left out": ("RGBA", "LA", "PA", "La", "RGBa"),
    "print colours become red, green and blue": ("CMYK",),
    "floating-point grey is cut to 0 to 255": ("F",),
}
"What pictures lose here, by Pillow's name of their kind."


def decoded(
    encoded: Iterable[bytes | Path],
    side: int | None,
    channels: int,
    where: str = "",
    lost: Counter[str] | None = None,
    first: int = 0,
) -> np.ndarray:
    """Pictures (JPEG, PNG, …), given as bytes or files, as uint8 [n, height, width, channels], grey or RGB.

    They are resized to `side` × `side` (antialiased bilinear) where it is given; 16 bits a channel are scaled to 8.
    `where` names the origin of bytes for messages, and `first` is the number of the first row there. What pictures lose
    is counted in `lost`. Raises UserError naming the picture for a damaged one, and for pictures of different sizes
    without `side`.
    """
    pixels, size = bytearray(), (side, side) if side else None
    for number, picture in enumerate(encoded, first):
        name = str(picture) if isinstance(picture, Path) else f"{where or 'the pictures'}, row {number}"
        image = _decoded(picture, MODES[channels], name, Counter() if lost is None else lost)
        size = size or image.size
        if side:
            image = _resized(image, side)
        elif image.size != size:
            raise UserError(
                f"{name}: the picture is {image.size}, those before it are {size}; set `side` to resize them"
            )
        pixels += image.tobytes()
    width, height = size or (0, 0)
    count = len(pixels) // max(height * width * channels, 1)
    return np.frombuffer(pixels, np.uint8).reshape(count, height, width, channels)


def resized(pixels: np.ndarray, side: int) -> np.ndarray:
    """Images uint8 [n, height, width, 1 or 3] at `side` × `side`, antialiased bilinear.

    Raises UserError for arrays that are not pictures.
    """
    from PIL import Image

    count, height, width, channels = pixels.shape
    if (height, width) == (side, side):
        return pixels
    if pixels.dtype != np.uint8 or channels not in MODES:
        raise UserError(
            f"only grey and RGB images can be resized, not {channels} channels of {pixels.dtype}: leave out `side`"
        )
    result = np.empty((count, side, side, channels), np.uint8)
    for number, array in enumerate(pixels):
        image = Image.fromarray(array[:, :, 0] if channels == 1 else array)
        result[number] = np.asarray(_resized(image, side)).reshape(side, side, channels)
    return result


def _decoded(picture: bytes | Path, mode: str, name: str, lost: Counter[str]) -> "PIL.Image.Image":
    from PIL import Image

    try:
        with Image.open(BytesIO(picture) if isinstance(picture, bytes) else picture) as opened:
            opened.load()
            image: PIL.Image.Image = opened
            if image.mode.startswith("I"):  # Pillow would clip all of 256 and more to white
                lost["16 bits a channel become 8"] += 1
                image = Image.fromarray(np.asarray(np.asarray(image) * (255 / 65535) + 0.5, np.uint8))
            lost.update(what for what, modes in LOSSES.items() if image.mode in modes)
            return image if image.mode == mode else image.convert(mode)
    # Pillow reports damage in many ways, and a picture that claims to be huge as DecompressionBombError
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"{name}: incomplete or damaged picture ({error})") from error


def _resized(image: "PIL.Image.Image", side: int) -> "PIL.Image.Image":
    from PIL import Image

    return image if image.size == (side, side) else image.resize((side, side), Image.Resampling.BILINEAR)
