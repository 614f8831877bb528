"""The machines that computed the rounds of an interrupted cell: noted beside its checkpoint, then in its results."""

import platform
import socket
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import fedgrid
from fedgrid.errors import Damaged
from fedgrid.files import read_json, write_json
from fedgrid.grid.earlier.circumstances import Circumstances
from fedgrid.grid.plan.cell_metadata import Attempt, CellMetadata, Platform
from fedgrid.grid.study.codec import Misfit, decode, encode
from fedgrid.jobs import machine


def this_machine(threads: int, executor: str, device: str, others: Iterable[str] = ()) -> Platform:
    """The libraries, with `others`, and the hardware of this process; `device` is a GPU's model, or ``cpu``."""
    versions = {"python": platform.python_version(), "fedgrid": fedgrid.__version__}
    versions |= {library: version(library) for library in ("torch", "numpy", *others)}
    here = {"host": socket.gethostname(), "cpu": machine.processor(), "instructions": machine.instructions()}
    return Platform(versions, {**here, "threads": threads, "executor": executor, "device": device})


class Attempts:
    """The attempts at one cell; the `present` one runs on this machine."""

    def __init__(self, checkpoint: Path, present: Platform):
        self.checkpoint, self.file = checkpoint, notes_of(checkpoint)
        self.present = Attempt(present.versions, present.hardware, 0)
        self.earlier, self.begun = list[Attempt](), False

    def begin(self, rounds: int) -> None:
        """Notes, when it is called for the first time, that the present attempt continues after so many rounds.

        Attempts that began there or later left no rounds behind. An attempt under the same circumstances as the last
        one counts as part of it.
        """
        if self.begun:
            return
        self.begun = True
        known = _read(self.file) if self.checkpoint.is_file() else []
        self.earlier = [attempt for attempt in known if attempt.after < rounds]
        if self.earlier and Circumstances.of(self.earlier[-1]) == Circumstances.of(self.present):
            rounds = self.earlier.pop().after
        self.present = replace(self.present, after=rounds)
        write_json(self.file, {"attempts": encode([*self.earlier, self.present])})

    def noted_in(self, results: CellMetadata, before: Iterable[Attempt] = ()) -> CellMetadata:
        """The metadata of results with their attempts; as they are if all ran under the same circumstances.

        `attempts` lists them in order, and `hardware` describes all but the last in words. Attempts `before` are those
        of the run from whose state the first one started.
        """
        attempts = [*before, *self.earlier, Attempt(results.versions, results.hardware, self.present.after)]
        if len(set(map(Circumstances.of, attempts))) == 1:
            return results
        machines = (f"to round {later.after}: {Circumstances.of(attempt)}" for attempt, later in pairwise(attempts))
        return replace(results, attempts=attempts, hardware=results.hardware | {"before": "; ".join(machines)})


def attempts_of(results: CellMetadata) -> list[Attempt]:
    """The attempts that computed results: one, unless they ran under different circumstances."""
    return results.attempts or [Attempt(results.versions, results.hardware, 0)]


def notes_of(checkpoint: Path) -> Path:
    """The file beside a checkpoint that lists the attempts at its rounds."""
    return checkpoint.with_name(checkpoint.name + ".attempts.json")


def _read(file: Path) -> list[Attempt]:
    """The attempts in a file; none if it is missing or damaged, since that is no reason to train a cell again."""
    try:
        return decode(list[Attempt], read_json(file)["attempts"]) if file.is_file() else []
    except (Damaged, KeyError, Misfit):
        return []
