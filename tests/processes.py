"""Processes that tests start and watch, and a warm worker that is waited for."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from fedgrid.jobs import warm

PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
"Options of a process whose output and errors are read as one text."
PATIENCE = 600
"""Seconds that a worker may take until it listens, on a machine that has more to do."""


def warm_command(module: str, *arguments: str) -> list[str]:
    """Runs a module in the warm worker where one listens, else in the process itself."""
    return [sys.executable, "-S", "-E", str(warm.CLIENT), module, *arguments]


def listening(kind: Callable[[], warm.Worker] = warm.Worker) -> warm.Worker:
    """A worker whose server listens; its socket stands in the environment.

    Raises TimeoutError where it does not: a module that only the worker can run would silently do nothing.
    """
    worker = kind()
    worker.start()
    os.environ[warm.VARIABLE] = worker.socket
    if not eventually(lambda: os.path.exists(worker.socket), PATIENCE):
        raise TimeoutError(f"no worker after {PATIENCE} seconds")
    return worker


def eventually(condition: Callable[[], Any], seconds: float = 60.0) -> bool:
    """Whether a condition becomes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
