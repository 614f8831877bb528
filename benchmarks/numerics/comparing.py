"""Two trees at work on the same cases, side by side, and what they computed compared as they go on."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.numerics.cases import Case
from benchmarks.numerics.comparison import differences, reason
from benchmarks.numerics.trees import Tree
from benchmarks.numerics.worker import FAILED


@dataclass(frozen=True)
class Compared:
    """What became of a case."""

    case: Case
    difference: str = ""
    "The first one, in words."
    failure: str = ""
    "Why the case says nothing about numbers: what both trees fail with, in the same way, or the earlier one alone."


class Computing:
    """A tree at work on cases; what it has written of one lies in a folder by the name of the case, within `out`."""

    def __init__(self, tree: Tree, wanted: Sequence[Case], out: Path):
        out.mkdir()
        self.out, self.log, jobs = out, out.with_suffix(".log"), out.with_suffix(".json")
        jobs.write_text(json.dumps([case.job for case in wanted]), encoding="utf-8")
        self.process = tree.start(jobs, out, self.log)

    def waits(self) -> bool:
        """Waits for the next case; False where the process has ended before it was done."""
        assert self.process.stdout is not None
        return self.process.stdout.readline() != ""

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self.process.kill()
        self.process.communicate()

    @property
    def last_words(self) -> str:
        """The last line that the process has said beside the names of cases."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing was said"


def compare(before: Tree, now: Tree, wanted: Sequence[Case], folder: Path) -> Iterator[Compared]:
    """Computes cases with both trees at once, a core each, and compares them in order; `folder` takes the files."""
    earlier = Computing(before, wanted, folder / "before")
    try:
        for one in compare_with(earlier.out, now, wanted, folder, earlier):
            yield one
            shutil.rmtree(earlier.out / one.case.name, ignore_errors=True)
    finally:
        earlier.end()


def compare_with(
    before: Path, now: Tree, wanted: Sequence[Case], folder: Path, earlier: Computing | None = None
) -> Iterator[Compared]:
    """As `compare`, with what another tree has written `before`, or is writing: `earlier`."""
    today = Computing(now, wanted, folder / "now")
    try:
        for case in wanted:
            ended = next((one for one in (earlier, today) if one and not one.waits()), None)
            if ended:
                yield Compared(case, f"a process was ended by it: {ended.last_words}")
                return
            yield _compared(case, before / case.name, today.out / case.name)
            shutil.rmtree(today.out / case.name)
    finally:
        today.end()


def _compared(case: Case, before: Path, now: Path) -> Compared:
    """A case that failed and works now has no earlier numbers, so that there is nothing to compare."""
    if (before / FAILED).is_file() and not (now / FAILED).is_file():
        return Compared(case, failure="it failed before, and works now")
    difference = next(differences(before, now), "")
    return Compared(case, difference, "" if difference else reason(now))
