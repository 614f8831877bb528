"""Data sets that lie as ``<root>/<name>/{train,test}.parquet``: columns image (raw bytes) and label.

The schema metadata tells height, width, channels and the encoding of the images.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.data.base import PARTS, Images
from fedgrid.errors import UserError


def found(root: Path | None, name: str) -> bool:
    """Whether both parts of data set `name` lie under `root`."""
    return root is not None and all((root / name / f"{part}.parquet").is_file() for part in PARTS)


def read(root: Path, name: str) -> dict[str, Images]:
    """Both parts of data set `name`; UserError for a damaged file or images that are not raw pixels."""
    return {part: _read(root / name / f"{part}.parquet") for part in PARTS}


def _read(file: Path) -> Images:
    try:
        table = pq.read_table(file)
        facts = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
        shape = tuple(int(facts[side]) for side in ("height", "width", "channels"))
        if facts["encoding"] != "raw":
            raise UserError(f"{file}: images are encoded as {facts['encoding']}, expected raw pixels")
        pixels = np.frombuffer(b"".join(table["image"].to_pylist()), np.uint8).reshape(-1, *shape)
        return Images(pixels, table["label"].to_numpy().astype(np.int64))
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise UserError(f"{file}: not a whole data set file ({type(error).__name__}: {error})") from error
