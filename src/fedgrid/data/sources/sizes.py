"""Whether pictures have the size that they should have, by their headers alone: no pixel is decoded.

Pictures that have it are noted in the user's cache, under a digest of what they hold, and not opened again.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.errors import UserError
from fedgrid.files import cache, write_json

AT_ONCE = 256
"Rows of a table that are read together."
Named = tuple[str, bytes | Path]
"A picture's bytes or its file, after the name that it has in sentences."


def check(pictures: Iterable[Named], shape: tuple[int, int], identity: str, mend: str) -> None:
    """Raises UserError, which ends with `mend`, for the first picture that is not of this height and width.

    `identity` is a digest of what all pictures hold. Those that cannot be opened are left to what decodes them.
    """
    note = cache("sizes") / f"{identity}.json"
    if note.is_file():
        return
    for name, picture in pictures:
        other = _shape(picture)
        if other and other != shape:
            sides = "{} × {} pixels (height × width)".format(*other), "{} × {}".format(*shape)
            raise UserError(f"{name} has {sides[0]}, expected {sides[1]}; {mend}")
    with suppress(UserError):  # it only saves time
        write_json(note, {"shape": list(shape)})


def in_table(file: Path) -> Iterator[Named]:
    """The encoded pictures of a Parquet file, up to where it is damaged; none where pixels stand there as they are."""
    with suppress(OSError, pa.ArrowException), pq.ParquetFile(file) as table:
        if table.schema_arrow.metadata[b"encoding"] == b"raw":
            return
        batches = table.iter_batches(AT_ONCE, columns=["image"])
        rows = (row for batch in batches for row in batch["image"].to_pylist())
        yield from ((f"{file}, row {number}", row or b"") for number, row in enumerate(rows))


def _shape(picture: bytes | Path) -> tuple[int, int] | None:
    from PIL import Image

    try:
        with Image.open(BytesIO(picture) if isinstance(picture, bytes) else picture) as opened:
            return opened.height, opened.width
    # as where pictures are decoded: Pillow reports damage in many ways
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None
