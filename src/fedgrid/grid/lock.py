"""One run at a time on a store: a second one would delete, as its own unfinished outputs, what the first is making."""

import fcntl
from pathlib import Path

from fedgrid.errors import UserError


class StoreLock:
    """A lock that the operating system takes back when its holder ends, however it ends."""

    def __init__(self, store: Path):
        self.file = store / ".lock"
        self.handle = None

    def acquire(self) -> None:
        """Takes the lock; UserError where another run holds it."""
        self.handle = open(self.file, "w")  # noqa: SIM115  held open until the process ends
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"another run is at work on {self.file.parent}: wait for it or end it") from error
