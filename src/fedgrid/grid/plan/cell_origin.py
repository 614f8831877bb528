"""Where the results of a cell come from that another store computed: a file beside them, which is part of no key.

`fedgrid merge` writes it. It names the bytes that it is about, so it says nothing of results that are computed here
later under the same name. The machine and the versions are in the metadata of the results themselves.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrid.errors import Damaged, UserError
from fedgrid.files import read_json, write_json
from fedgrid.grid.study.codec import Misfit, decode, encode

SUFFIX = ".origin.json"
"With what the name of the file ends, in place of that of the results."
LONGEST_NAME = 100
"Characters of the name of a source."


@dataclass(frozen=True)
class Merge:
    """One merge of a cell from a source into a store."""

    source: str
    "The name of the archive, or the folder of the store."
    archive: str
    "SHA-256 of the archive; empty where the source was a store."
    merged: str
    "When: ISO 8601, UTC."

    @property
    def title(self) -> str:
        """The source as captions name it."""
        return f"{self.source} (sha256 {self.archive[:8]})" if self.archive else self.source


@dataclass(frozen=True)
class CellOrigin:
    """The way of some results from the store that computed them into this one."""

    results: str
    "SHA-256 of the file of results."
    merges: Sequence[Merge]
    "The oldest first."

    @property
    def source(self) -> str:
        """The source whose results these are, as captions name it."""
        return self.merges[0].title


def origin_file(results: Path) -> Path:
    """Where the origin of results in a file is, if they were merged."""
    return results.with_suffix(SUFFIX)


def read_origin(results: Path) -> CellOrigin | None:
    """The origin of results in a file; None for results that were computed in their store.

    Raises UserError where the file of the origin is not what `fedgrid merge` wrote.
    """
    file = origin_file(results)
    if not file.is_file():
        return None
    try:
        origin = decode(CellOrigin, read_json(file))
        if not origin.merges or not all(map(_is_plain, origin.merges)):
            raise Misfit("no source, or one whose name cannot be printed")
    except (Damaged, Misfit) as error:
        why = error.why if isinstance(error, Damaged) else str(error)
        advice = "merge the cell again, or delete this file to count the cell as computed here"
        raise UserError(f"{file}: not an origin that fedgrid merge wrote ({why}); {advice}") from error
    return origin if origin.results == _digest(results) else None


def write_origin(results: Path, merges: Sequence[Merge]) -> Path:
    """Writes the origin of results beside them; returns its file."""
    file = origin_file(results)
    write_json(file, encode(CellOrigin(_digest(results), merges)))
    return file


def plain_name(name: str) -> str:
    """The name of a source as an origin has it: printable, and not too long for a caption."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:LONGEST_NAME] or "?"


def _is_plain(merge: Merge) -> bool:
    is_digest = not merge.archive.strip("0123456789abcdef")
    return merge.source == plain_name(merge.source) and is_digest and merge.merged.isprintable()


def _digest(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
