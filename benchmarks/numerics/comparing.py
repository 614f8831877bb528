"""Two trees at work on the same cases, side by side, and what they computed compared as they go on."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.numerics.cases import Case
from benchmarks.numerics.comparison import FAILED, differences, reason
from benchmarks.numerics.trees import Tree


@dataclass(frozen=True)
class Compared:
    """What became of a case."""

    case: Case
    difference: str = ""
    "The first one, in words."
    failure: str = ""
    "Why the case says nothing about numbers: what both trees fail with, in the same way, or the earlier one alone."


def compare(before: Tree, now: Tree, wanted: Sequence[Case], folder: Path) -> Iterator[Compared]:
    """Computes cases with both trees at once, a core each, and compares them in order; `folder` takes the files."""
    jobs = folder / "cases.json"
    jobs.write_text(json.dumps([case.job for case in wanted]), encoding="utf-8")
    outs = [folder / "before", folder / "now"]
    for out in outs:
        out.mkdir()
    processes = [tree.start(jobs, out, out.with_suffix(".log")) for tree, out in zip((before, now), outs, strict=True)]
    try:
        for case in wanted:
            ended = [process.stdout.readline() == "" for process in processes if process.stdout]
            one, other = (out / case.name for out in outs)
            if any(ended):
                yield Compared(case, f"a process was ended by it: {_last_line(outs[ended.index(True)])}")
                return
            yield _compared(case, one, other)
            for done in (one, other):
                shutil.rmtree(done)
    finally:
        _end(processes)


def _compared(case: Case, before: Path, now: Path) -> Compared:
    """A case that failed and works now has no earlier numbers, so that there is nothing to compare."""
    if (before / FAILED).is_file() and not (now / FAILED).is_file():
        return Compared(case, failure="it failed before, and works now")
    difference = next(differences(before, now), "")
    return Compared(case, difference, "" if difference else reason(now))


def _last_line(out: Path) -> str:
    lines = out.with_suffix(".log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing was said"


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        with suppress(OSError):
            process.communicate()
