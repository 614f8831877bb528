"""A cell as trackers of experiments know it: a run with parameters, scalars by step, and how it ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

Parameter = str | int | float | bool


@dataclass(frozen=True)
class Point:
    """One value of a curve; `step` is the round."""

    tag: str
    step: int
    value: float


@dataclass(frozen=True)
class Run:
    """A cell before it has results."""

    path: tuple[str, ...]
    "Row, data, heterogeneity and seed, as folders are named."
    key: str
    study: str
    "Title of its study."
    parameters: Mapping[str, Parameter]

    @property
    def name(self) -> str:
        """The path as one text."""
        return "/".join(self.path)


@dataclass(frozen=True)
class Ending:
    """How a cell ended."""

    status: str
    "``ok`` or ``diverged``."
    metrics: Mapping[str, float]
    "Its score and its costs."
    tags: Mapping[str, str]
    "Reason, code, commit, versions, hardware."


class Writer(Protocol):
    """Writes one run."""

    def write(self, points: Iterable[Point]) -> None:
        """Adds points, which a reader finds at once."""

    def end(self, ending: Ending) -> None:
        """Adds how the cell ended; the run is complete."""

    def leave(self) -> None:
        """Closes a run whose cell has no results."""


class Tracker(Protocol):
    """Where runs are written to."""

    def begin(self, run: Run) -> Writer | None:
        """What writes the run, in place of an earlier version of it; None where it is there and complete."""

    @property
    def hint(self) -> str:
        """How a person looks at the runs: a command, or a sentence."""
