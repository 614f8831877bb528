"""The machines that computed the rounds of an interrupted cell: noted beside its checkpoint, then in its results."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedgrid.errors import Damaged
from fedgrid.files import read_json, write_json
from fedgrid.grid.earlier.circumstances import Circumstances


class Attempts:
    """The attempts at one cell; the present one runs on `machine`, as `versions_and_hardware` describes it."""

    def __init__(self, checkpoint: Path, machine: Mapping[str, Any]):
        self.checkpoint, self.file = checkpoint, notes_of(checkpoint)
        self.present = _attempt(0, machine)
        self.earlier: list[Mapping[str, Any]] = []

    def begin(self, rounds: int) -> None:
        """Notes that the present attempt continues after so many rounds.

        Attempts that began there or later left no rounds behind. An attempt under the same circumstances as the last
        one counts as part of it.
        """
        known = _read(self.file) if self.checkpoint.is_file() else []
        self.earlier = [attempt for attempt in known if attempt["after"] < rounds]
        self.present["after"] = rounds
        if self.earlier and Circumstances.of(self.earlier[-1]) == Circumstances.of(self.present):
            self.present["after"] = self.earlier.pop()["after"]
        write_json(self.file, {"attempts": [*self.earlier, self.present]})

    def as_metadata(self, results: Mapping[str, Any], before: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Metadata of `results` on their attempts; empty if all ran under the same circumstances.

        `attempts` lists them in order, and `hardware` describes all but the last in words. Attempts `before` are those
        of the run from whose state the first one started.
        """
        attempts = [*before, *self.earlier, _attempt(self.present["after"], results)]
        if len(set(map(Circumstances.of, attempts))) == 1:
            return {}
        machines = (f"to round {later['after']}: {Circumstances.of(attempt)}" for attempt, later in pairwise(attempts))
        return {"attempts": attempts, "hardware": results["hardware"] | {"before": "; ".join(machines)}}


def attempts_of(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The attempts that computed results: one, unless they ran under different circumstances."""
    attempts: list[Mapping[str, Any]] = metadata.get("attempts") or [_attempt(0, metadata)]
    return attempts


def notes_of(checkpoint: Path) -> Path:
    """The file beside a checkpoint that lists the attempts at its rounds."""
    return checkpoint.with_name(checkpoint.name + ".attempts.json")


def _attempt(after: int, machine: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt that continued after so many rounds, on the `machine` of results or of `versions_and_hardware`."""
    return {"after": after, "versions": machine["versions"], "hardware": machine["hardware"]}


def _read(file: Path) -> list[Mapping[str, Any]]:
    """The attempts in a file; none if it is missing or damaged, since that is no reason to train a cell again."""
    if not file.is_file():
        return []
    try:
        attempts: list[Mapping[str, Any]] = read_json(file)["attempts"]
    except Damaged:
        return []
    return attempts
