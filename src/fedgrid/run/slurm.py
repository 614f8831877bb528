"""SLURM as a run sees it: its jobs, those that a killed run left behind, and why and whether a job has ended."""

import getpass
import re
import subprocess
import time
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from fedgrid.command import output_of
from fedgrid.errors import UserError, say_notice

PATIENCE = 60.0
"Seconds within which SLURM must answer, and a cancelled job end: it may write its checkpoint first."
LONGEST_WAIT = 180
"The longest time, in seconds, between two looks of the executor at its jobs."
SACCT = ["sacct", "--allocations", "--clusters=all", "--noheader", "--starttime=now", "--name=none"]
"The executor's question about its jobs, asked about no job."
LOGS = Path(".snakemake/slurm_logs")
"Where the executor keeps SLURM's own output on each job, below the folder of the run."
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


def jobs() -> list[Job] | None:
    """The user's queued and running jobs; None if there is no SLURM or it does not answer."""
    output = output_of(["squeue", "--noheader", "--user", getpass.getuser(), "--format", "%A|%k|%Z"], PATIENCE)
    if output is None:
        return None
    return [Job(*line.split("|")) for line in output.splitlines() if line.count("|") == 2]


def end_leftovers(keys: Set[str]) -> None:
    """Cancels jobs that an earlier, killed run of this folder left in the queue, for any cell or pack of `keys`.

    A queued one would delete, and compute again, what the new run has finished. Waits until they have ended; raises
    UserError if one does not.
    """
    leftovers = _leftovers(keys)
    if not leftovers:
        return
    jobs_left = f"{len(leftovers)} job{'s' if len(leftovers) > 1 else ''}"
    say_notice(f"cancelling {jobs_left} left by an earlier run")
    subprocess.run(["scancel", *(job.number for job in leftovers)], check=False)
    patience = time.monotonic() + PATIENCE
    while leftovers and time.monotonic() < patience:
        time.sleep(0.5)
        leftovers = _leftovers(keys)
    if leftovers:
        problem = f"job {leftovers[0].number} of an earlier run does not end"
        raise UserError(f"{problem}; cancel it with scancel, and run the same command again")


def _leftovers(keys: Set[str]) -> list[Job]:
    own = [job for job in jobs() or () if job.folder == str(Path.cwd())]
    return [job for job in own if not keys.isdisjoint(re.findall("[0-9a-f]{16}", job.comment))]


def reason(number: str) -> str:
    """Why SLURM ended a job, as a key of `REASONS`, from SLURM's output in the job's log; empty if unknown."""
    for log in LOGS.glob(f"rule_*/**/{number}.log"):
        text = log.read_text(encoding="utf-8", errors="replace")
        return next((name for name, pattern in REASONS.items() if pattern.search(text)), "")
    return ""


def accounting_failure() -> str:
    """Why sacct, which needs an accounting database, cannot tell how jobs end, in its own words.

    Empty if it can, or if there is no sacct: the executor then asks squeue.
    """
    try:
        run = subprocess.run(SACCT, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    except FileNotFoundError:
        return ""
    except subprocess.TimeoutExpired:
        return f"no answer in {PATIENCE:.0f} s"
    if run.returncode == 0:
        return ""
    *_, line = run.stderr.splitlines() or [f"exit code {run.returncode}"]
    return line.strip()


def forgets_early() -> str:
    """Why squeue cannot tell how jobs end either, and what to do about it; empty if it can.

    SLURM forgets a finished job after MinJobAge seconds, and the executor waits forever for a job whose end it missed.
    """
    settings = output_of(["scontrol", "show", "config"], PATIENCE) or ""
    age = re.search(r"^MinJobAge\s*=\s*(\d+) sec", settings, re.M)
    if age is None or int(age[1]) >= LONGEST_WAIT:
        return ""
    return (
        f"squeue lists a finished job for {age[1]} s only, and the executor may look every {LONGEST_WAIT} s; "
        "ask your administrators for MinJobAge=300 in slurm.conf, or for an accounting database"
    )
