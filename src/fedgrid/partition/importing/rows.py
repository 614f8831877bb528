"""What every foreign form of a partition is read into: which client holds which image, however it names them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedgrid.errors import UserError, nearest
from fedgrid.partition.common.rows import EVERYONE, SPLITS

SPLIT_NAMES = {"train": 0, "validation": 1, "valid": 1, "val": 1, "test": 2}
"How other programs call a split → its position in `SPLITS`."
TEST = SPLITS.index("test")
Naming = Literal["index", "file", "digest"]
"How rows name their images: by row number, by the picture's file, by SHA-256."
NAMINGS: dict[Naming, str] = {"index": "row numbers", "file": "file names", "digest": "image digests"}
"How rows name images → what captions call it."
LARGEST_NUMBER = 2**31 - 1
"Of a row, or of a label."


@dataclass(frozen=True)
class ImportedRows:
    """The rows of a foreign partition, in the order of its file."""

    clients: tuple[str, ...]
    "Names in the file, by number."
    client: np.ndarray
    "Positions in `clients`, or `EVERYONE` for a test image that all clients share: int64 [n]."
    split: np.ndarray
    "Positions in `SPLITS`, int64 [n]."
    naming: Naming
    image: np.ndarray
    "Row numbers (int64 [n]: the training part first, then the test part), else texts [n]."
    label: np.ndarray | None = None
    "Where the file says it, int64 [n]."
    form: str = ""
    "What captions call the form of the file."

    @property
    def shared(self) -> np.ndarray:
        """Whether a row is of all clients, bool [n]."""
        return np.asarray(self.client == EVERYONE)

    @property
    def has_own_tests(self) -> bool:
        """Whether any client has test images that others do not share."""
        return bool(((self.split == TEST) & ~self.shared).any())


def listed(values: Sequence[object], most: int) -> str:
    """The first of some values, separated by commas, and how many more there are."""
    more = f" and {len(values) - most:,} more" if len(values) > most else ""
    return ", ".join(map(str, values[:most])) + more


def numbered(names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    """The different names of clients in order, numbers by size and others by letter, and the position of each."""
    ordered = sorted({*names}, key=_natural)
    return tuple(ordered), {name: number for number, name in enumerate(ordered)}


def _natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    parts = re.split(r"(\d+)", name)
    return tuple((part.isdigit(), int(part[:18]) if part.isdigit() else 0, part) for part in parts if part)


def split_number(name: object, where: str) -> int:
    """The position of a split in `SPLITS`; UserError, which begins with `where` it stands, for an unknown one."""
    key = str(name).strip().lower()
    if key not in SPLIT_NAMES:
        raise UserError(f"{where}: unknown split {str(name)[:40]!r}; {nearest(key, SPLIT_NAMES)}")
    return SPLIT_NAMES[key]


def check_shared(rows: ImportedRows, where: str) -> None:
    """Raises UserError where images of all clients are not for testing, or clients have test images of their own."""
    if (rows.split[rows.shared] != TEST).any():
        raise UserError(f"{where}: client {EVERYONE} stands for all clients, who can share test images only")
    if rows.shared.any() and rows.has_own_tests:
        raise UserError(
            f"{where}: test images are both of client {EVERYONE}, that is of all clients, and of single ones"
        )
