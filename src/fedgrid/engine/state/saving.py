"""Where a cell's progress is saved, and from what it starts."""

from dataclasses import dataclass
from pathlib import Path


class Terminated(BaseException):
    """The process received SIGTERM, for example from a scheduler whose time limit is near."""


@dataclass(frozen=True)
class Origin:
    """A kept state to start from, and the key of the cell that it is of."""

    file: Path
    key: str


@dataclass(frozen=True)
class Saving:
    """Where and how often a cell is saved; `every` is in seconds."""

    file: Path
    key: str
    every: float
    origin: Origin | None = None
    "What to start from where there is no checkpoint; see `fedgrid.engine.state.kept_state.load_state`."
    state: Path | None = None
    "Where the state before the last round is kept, from which a longer run, or another look at the end, can start."


@dataclass(frozen=True)
class KeptState:
    """What the metadata of results say of the state that is kept beside them."""

    rounds: int
    "After which it was kept."
    reads: tuple[str, ...]
    "Why no longer run can continue from it; empty: one can."
