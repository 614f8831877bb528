"""A process that was started for one job: nothing but the job's own code, and what that names, was imported there."""

import os
import signal

JOB = "FEDGRID_JOB"
"Environment variable: the number of a process that was started for one job."
TERMINATED = 75
"Exit code of a cell or a pack that a signal of `ASKED_TO_END` ended: its checkpoints are written, it can go on."
ASKED_TO_END = (signal.SIGTERM, signal.SIGUSR1)
"What schedulers send before a time limit."


def enter_job() -> None:
    """Says that this process was started for the job that it does."""
    os.environ[JOB] = str(os.getpid())


def in_job() -> bool:
    """Whether this process was started for a job; one that it starts itself was not."""
    return os.environ.get(JOB) == str(os.getpid())
