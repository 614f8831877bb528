"""One run at a time on a store: a second one would delete, as its own unfinished outputs, what the first is making.

A process that only looks takes a shared lock on a file that is opened for reading: several may look at once, and a
read-only store can be looked at.
"""

import errno
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path

from fedgrid.errors import UserError, reason, say_notice
from fedgrid.files import lock

WAITS = 10
"Tenths of a second for which the lock is tried: a process that asks for the `holder` has it for a moment."
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"Errors of file systems without locks, such as Lustre where it is mounted without `flock`."


@dataclass(frozen=True)
class Holder:
    """The run that has the lock; `began` is in seconds since 1970."""

    host: str
    pid: int
    began: float


class StoreLock:
    """A lock that the operating system takes back when its holder ends, however it ends."""

    def __init__(self, store: Path):
        self.file = store / ".lock"
        self.handle: FileIO | None = None

    def acquire(self) -> None:
        """Takes the lock and notes who has it; UserError where another run holds it.

        Where the file system has no locks, it warns and goes on.
        """
        who = Holder(socket.gethostname(), os.getpid(), time.time())
        try:
            self.handle = handle = open(self.file, "ab", buffering=0)  # noqa: SIM115  held open until the process ends
            self._wait(handle)
            handle.truncate(0)
            handle.write(json.dumps(asdict(who)).encode())
        except OSError as error:
            raise UserError(f"results: cannot write in {self.file.parent} ({reason(error)})") from error

    def _wait(self, handle: FileIO) -> None:
        try:
            for _ in range(WAITS):
                if lock(handle):
                    return
                time.sleep(0.1)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            advice = "make sure that no other run uses this store"
            say_notice(f"{self.file} cannot be locked ({reason(error)}): {advice}")
            return
        raise UserError(f"{self.file.parent} is in use by another run; wait for it to finish or stop it")

    def release(self) -> None:
        """Gives it back before the process ends."""
        if self.handle:
            self.handle.close()

    def holder(self) -> Holder | None:
        """The holder of the lock, or None."""
        try:
            with open(self.file, errors="replace") as file:
                return None if lock(file, shared=True) else _noted(file.read())
        except OSError as error:
            if error.errno not in (*NO_LOCKS, errno.ENOENT):
                raise
        return None


def _noted(text: str) -> Holder:
    """The holder in the note; one without a name while the note is being written, or where it is damaged."""
    try:
        return Holder(**json.loads(text))
    except (ValueError, TypeError):
        return Holder("", 0, 0.0)
