"""SLURM as a run sees it: which jobs there are, which a killed run left behind, and why one ended."""

import getpass
import re
import subprocess
import sys
import time
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60.0
"Seconds for which the end of a cancelled job is waited for: it may write its checkpoint first."
LOGS = Path(".snakemake/slurm_logs")
"Where the executor keeps what SLURM itself says of a job, below the folder of the run."
REASONS = {
    "time limit": re.compile(r"DUE TO TIME LIMIT"),
    "out of memory": re.compile(r"oom[ _-]?kill|memory limit|out of memory|OUT_OF_MEMORY", re.I),
    "node failure": re.compile(r"NODE[ _]FAIL|node failure", re.I),
    "preempted": re.compile(r"DUE TO PREEMPTION", re.I),
    "cancelled": re.compile(r"CANCELLED AT"),
}


@dataclass(frozen=True)
class Job:
    """A job of this user's in the queue: its number, what the executor noted about it, the folder of its run."""

    number: str
    comment: str
    folder: str


def jobs() -> list[Job]:
    """The user's jobs that wait or run; none where SLURM is not there or does not answer."""
    command = ["squeue", "--noheader", "--user", getpass.getuser(), "--format", "%A|%k|%Z"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return []
    lines = run.stdout.splitlines() if run.returncode == 0 else []
    return [Job(*line.split("|")) for line in lines if line.count("|") == 2]


def end_leftovers(keys: Set[str]) -> None:
    """Cancels jobs that an earlier, killed run of this folder left in the queue, for any cell or pack of `keys`.

    One that still waited would delete, and compute again, what the new run has finished. They are waited for.
    """
    leftovers = _leftovers(keys)
    if not leftovers:
        return
    jobs_left = f"{len(leftovers)} job{'s' if len(leftovers) > 1 else ''}"
    print(f"fedgrid: cancelling {jobs_left} left by an earlier run", file=sys.stderr)
    subprocess.run(["scancel", *(job.number for job in leftovers)], check=False)
    patience = time.monotonic() + PATIENCE
    while _leftovers(keys) and time.monotonic() < patience:
        time.sleep(0.5)


def _leftovers(keys: Set[str]) -> list[Job]:
    folder = str(Path.cwd())
    return [j for j in jobs() if j.folder == folder and not keys.isdisjoint(re.findall("[0-9a-f]{16}", j.comment))]


def reason(number: str) -> str:
    """Why SLURM ended a job, a key of `REASONS`, as it says itself in the job's log; empty where it does not."""
    for log in LOGS.glob(f"rule_*/**/{number}.log"):
        text = log.read_text(encoding="utf-8", errors="replace")
        return next((name for name, pattern in REASONS.items() if pattern.search(text)), "")
    return ""
