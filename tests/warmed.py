"""A warm worker that is waited for."""

import os
import time

from fedgrid.jobs import warm


def listening(kind: type[warm.Worker] = warm.Worker) -> warm.Worker:
    """A worker whose server listens; its socket stands in the environment."""
    worker = kind()
    worker.start()
    patience = time.monotonic() + 60
    while not os.path.exists(os.environ[warm.VARIABLE]) and time.monotonic() < patience:
        time.sleep(0.05)
    return worker
