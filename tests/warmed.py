"""A warm worker that is waited for."""

import os
import sys
import time

from fedgrid.jobs import warm

PATIENCE = 600
"""Seconds that a worker may take until it listens, on a machine that has more to do."""


def warm_command(module: str, *arguments: str) -> list[str]:
    """Runs a module in the warm worker where one listens, else in the process itself."""
    return [sys.executable, "-S", "-E", str(warm.CLIENT), module, *arguments]


def listening(kind: type[warm.Worker] = warm.Worker) -> warm.Worker:
    """A worker whose server listens; its socket stands in the environment.

    Raises TimeoutError where it does not: a module that only the worker can run would silently do nothing.
    """
    worker = kind()
    worker.start()
    os.environ[warm.VARIABLE] = worker.socket
    patience = time.monotonic() + PATIENCE
    while not os.path.exists(worker.socket):
        if time.monotonic() > patience:
            raise TimeoutError(f"no worker after {PATIENCE} seconds")
        time.sleep(0.05)
    return worker
