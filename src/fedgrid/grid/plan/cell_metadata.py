"""What the file of a cell's results says of them, as its metadata.

Fields with a default may be absent from what an earlier version wrote. Keys of later versions are not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from fedgrid.errors import UserError
from fedgrid.files import read_metadata, read_table
from fedgrid.grid.study.codec import Misfit, decode, encode

OPTIONAL = ("state", "attempts", "continued", "taken", "adopted")
"Keys that a file has only where there is something to say."


@dataclass(frozen=True)
class Seconds:
    """Wall-clock time of a cell and its parts; None for a part that did not take place."""

    total: float
    train: float | None = None
    server: float | None = None
    evaluate: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    "Phases of a round that the method itself measures."


@dataclass(frozen=True)
class Costs:
    """Time and memory of a cell; device memory is an accelerator's own."""

    seconds: Seconds
    peak_memory_bytes: int = 0
    peak_device_memory_bytes: int = 0


@dataclass(frozen=True)
class Sizes:
    """Parameters of both parts of a model, its features and its classes."""

    extractor: int
    head: int
    features: int
    classes: int


@dataclass(frozen=True)
class Commit:
    """The commit of the code that computed a cell, and whether its tree was clean."""

    id: str
    clean: bool


@dataclass(frozen=True)
class Platform:
    """The libraries and the hardware that computed something."""

    versions: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt(Platform):
    """An attempt at a cell, which continued after so many rounds."""

    after: int = 0


@dataclass(frozen=True)
class KeptState:
    """The state that a cell has kept for a longer run: of so many rounds, in which it `reads` how many there are."""

    rounds: int
    reads: list[str]


@dataclass(frozen=True)
class Continued:
    """The run from whose state the training of a cell started, and after how many rounds."""

    after: int
    key: str
    adopted: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Taken:
    """The longer run whose first rounds a cell is."""

    key: str
    rounds: int


@dataclass(frozen=True, kw_only=True)
class CellResults(Platform):
    """What results say of themselves, even if training diverged; None for what those of earlier releases do not say."""

    status: str
    reason: str = ""
    score: str = ""
    "The point of a round at which its method's paper scores it."
    rounds: int
    costs: Costs
    domains: list[str | None] | None = None
    "The domain of each client's images, if there is one."
    sizes: Sizes | None = None
    commit: Commit | None = None
    images: str | None = None
    "Checksum of the images that it was trained on."
    code: str = ""
    "Digest of all code that can change its numbers, as its key covers it."


@dataclass(frozen=True, kw_only=True)
class CellMetadata(CellResults):
    """All that is written beside a cell's numbers."""

    others: ClassVar[Any] = Mapping[str, Any]
    key: str
    spec: dict[str, Any] = field(default_factory=dict)
    "The settings that the key covers; see `fedgrid.grid.plan.model.Cell.spec`."
    modules: dict[str, str] = field(default_factory=dict)
    "Of the code: digests by name."
    finished: str = ""
    "When: ISO 8601, UTC."
    clock: dict[str, list[float]] = field(default_factory=dict)
    "Seconds spent up to each round, by part."
    reads: list[str] | None = None
    "What of the length of the run was read, so that a longer one has other rounds; None: not recorded."
    state: KeptState | None = None
    attempts: list[Attempt] = field(default_factory=list)
    "In order, where they ran under different circumstances."
    continued: Continued | None = None
    taken: Taken | None = None
    adopted: list[dict[str, Any]] = field(default_factory=list)
    "How often an earlier version carried these results to later code, and on what evidence; the oldest first."

    @property
    def planned_rounds(self) -> int:
        """Rounds that it was to be trained for; `rounds` are those that it came to."""
        rounds: int = self.spec["training"]["rounds"]
        return rounds

    def plain(self) -> dict[str, Any]:
        """As metadata of a file."""
        return {key: value for key, value in encode(self).items() if value or key not in OPTIONAL}


def read_results(file: Path) -> tuple[pa.Table, CellMetadata]:
    """The numbers of a cell and what its file says of them; raises as `cell_metadata` does."""
    table, metadata = read_table(file)
    return table, _decoded(metadata, file)


def cell_metadata(file: Path) -> CellMetadata:
    """What a file of results says; UserError where it cannot be read, or decoded by this version."""
    return _decoded(read_metadata(file), file)


def _decoded(metadata: Mapping[str, Any], file: Path) -> CellMetadata:
    try:
        return decode(CellMetadata, metadata)
    except Misfit as error:
        raise UserError(f"{file}: not results of this version of fedgrid ({error})") from error


def known_metadata(file: Path) -> CellMetadata | None:
    """What a finished cell says; None for a damaged file, which only its own job has to complain about."""
    return _known(file, file.stat().st_mtime_ns)


@lru_cache(4096)
def _known(file: Path, mtime: int) -> CellMetadata | None:
    try:
        return cell_metadata(file)
    except UserError:
        return None
