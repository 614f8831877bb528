"""Searches of a plan: which cells are trained to choose a row's settings, by which rule, and what was chosen.

A search belongs to one row, data set and heterogeneity. Its cells, and those that the table would have with each point
of its grid, are all known while planning, each with its key. What was chosen is a small file of the store, whose key
covers the cells that it was chosen by, how they are scored, and the code of the rule.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedgrid.errors import Damaged
from fedgrid.files import read_json
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.codec import decode
from fedgrid.grid.study.fingerprint import fingerprint

RULE = "fedgrid.analysis.scores.validation"
"The module of the rule by which points are chosen."
Group = tuple[str, str, str]
"Row, data and heterogeneity, by label."


@dataclass(frozen=True)
class Rung:
    """A choice: the points that are compared after so many rounds, and how many of them go on."""

    key: str
    file: Path
    "Where the choice is kept, as `Choice`."
    rounds: int
    keep: int
    trials: tuple[tuple[str, ...], ...]
    "By point, the keys of its cells, one for each seed of the search."


@dataclass(frozen=True)
class Search:
    """How the settings of a row are chosen in one column of a table."""

    row: str
    data: str
    heterogeneity: str
    points: tuple[dict[str, Any], ...]
    "Settings by name, in the order of the grid."
    seeds: tuple[int, ...]
    rungs: tuple[Rung, ...]
    candidates: tuple[tuple[str, ...], ...]
    "By point, the keys of the cells that the table has with it, one for each seed of the table."

    @property
    def group(self) -> Group:
        """What tells it from the other searches of its experiment."""
        return self.row, self.data, self.heterogeneity

    @property
    def key(self) -> str:
        """The key of its last choice."""
        return self.rungs[-1].key

    def choices(self) -> list["Choice"]:
        """What was chosen so far, by rung."""
        choices = []
        for rung in self.rungs:
            if (choice := read_choice(rung.file)) is None:
                break
            choices.append(choice)
        return choices

    @property
    def chosen(self) -> int | None:
        """The number of the point that was chosen; None before that."""
        choices = self.choices()
        return choices[-1].kept[0] if len(choices) == len(self.rungs) else None

    def alive(self, rung: int) -> Sequence[int] | None:
        """The points that are compared on a rung, in the order of the grid; None before that is known."""
        if rung == 0:
            return range(len(self.points))
        choices = self.choices()
        return sorted(choices[rung - 1].kept) if len(choices) >= rung else None

    def trials(self) -> Iterator[str]:
        """Keys of the cells that it compares, as far as they are known."""
        for number, rung in enumerate(self.rungs):
            for point in self.alive(number) or ():
                yield from rung.trials[point]


@dataclass(frozen=True)
class Score:
    """What a rung says of a point."""

    point: int
    by_seed: tuple[float | None, ...]
    "Accuracy on validation images, mean over clients; None where a seed diverged or has none."
    images: float
    "Training images that it was given on this rung, over all seeds and clients; see `fedgrid.analysis.scores.budgets`."

    @property
    def mean(self) -> float | None:
        """Over seeds; None where one has no score."""
        numbers = [score for score in self.by_seed if score is not None]
        return sum(numbers) / len(numbers) if numbers and len(numbers) == len(self.by_seed) else None


@dataclass(frozen=True)
class Choice:
    """The points that were compared on a rung, and those that go on from it."""

    scores: tuple[Score, ...]
    "In the order of the grid."
    kept: tuple[int, ...]
    "The best first; of the last rung one, the point that is chosen."
    tied: tuple[int, ...] = ()
    "Points left out although their mean is that of the last one kept, which comes before them in the grid."


def read_choice(file: Path) -> Choice | None:
    """The choice in a file; None where it has not been made, `Damaged` where the file is not what was written."""
    try:
        return _read(file, file.stat().st_mtime_ns)
    except FileNotFoundError:
        return None


@lru_cache(4096)
def _read(file: Path, mtime: int) -> Choice:
    try:
        return decode(Choice, read_json(file), str(file))
    except ValueError as error:
        raise Damaged(file, str(error)) from error


def schedule(points: int, rounds: Sequence[int]) -> list[tuple[int, int]]:
    """Successive halving: the rounds of each rung, and how many points go on from it, till one is left.

    Of n points after r rounds, n·r/r′ (rounded up) go on to a next rung of r′ rounds: rungs cost about the same.
    """
    rungs, keep = [], points
    for this, following in zip(rounds, [*rounds[1:], None], strict=True):
        keep = max(1, math.ceil(keep * this / following)) if following else 1
        rungs.append((this, keep))
        if keep == 1:
            break
    return rungs


def rungs_of(
    store: Path, rungs: Sequence[tuple[int, int]], trials: Sequence[tuple[tuple[str, ...], ...]], reading: Sequence[str]
) -> tuple[Rung, ...]:
    """The rungs of a `schedule` with their keys; `trials` has those of cells by rung, point and seed.

    `reading` is how the cells are scored.
    """
    key, planned = "", []
    for (rounds, keep), of_rung in zip(rungs, trials, strict=True):
        key = digest([key, of_rung, keep, reading, fingerprint(RULE)])
        planned.append(Rung(key, store / "choices" / f"{key}.json", rounds, keep, of_rung))
    return tuple(planned)
