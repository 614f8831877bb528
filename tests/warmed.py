"""A warm worker that is waited for."""

import os
import sys
import time

from fedgrid.jobs import warm


def warm_command(module: str, *arguments: str) -> list[str]:
    """Runs a module in the warm worker where one listens, else in the process itself."""
    return [sys.executable, "-S", "-E", str(warm.CLIENT), module, *arguments]


def listening(kind: type[warm.Worker] = warm.Worker) -> warm.Worker:
    """A worker whose server listens; its socket stands in the environment."""
    worker = kind()
    worker.start()
    patience = time.monotonic() + 60
    while not os.path.exists(os.environ[warm.VARIABLE]) and time.monotonic() < patience:
        time.sleep(0.05)
    return worker
