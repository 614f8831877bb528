"""A warm worker: importing torch takes seconds, so one server imports it once and forks a process for every cell.

The client stands where the plain process would stand, and becomes it where no server listens: one job is one process,
with its own exit code, output and memory, either way.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from fedgrid.jobs.note import lives
from fedgrid.jobs.warm.client import connected

CLIENT = Path(__file__).with_name("client.py")
VARIABLE = "FEDGRID_WARM_SOCKET"
"Environment variable: the socket of the worker that serves a run's jobs."
LIBRARIES = ("torch", "sympy", "numpy", "pyarrow.parquet")
"What a cell imports; torch.vmap imports sympy on first use."

PREFIX = "fedgrid-worker-"
"Of the folder of a worker's socket; then comes the number of the process that started it."
STARTING = 120.0
"Seconds that a worker may take until it listens."


def own_folder() -> str:
    """A new folder for sockets of this process, in the system's folder for temporary files.

    The path of a socket may have 107 characters at most, so it cannot lie in the store.
    """
    remove_leftovers()
    return tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")


def remove_leftovers() -> None:
    """Removes such folders of processes that were killed.

    In a container that shares the folder but not the numbers of processes, a live one seems dead: so what has just
    started stays, and what listens.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(OSError):
            mine, old = folder.stat().st_uid == os.getuid(), time.time() - folder.stat().st_mtime > STARTING
            if mine and old and pid.isdigit() and not lives(int(pid)) and not _listens(folder / "socket"):
                shutil.rmtree(folder, ignore_errors=True)


def _listens(path: Path) -> bool:
    connection = connected(str(path))
    if connection is None:
        return False
    connection.close()
    return True


class Worker:
    """A server, which ends with this process; `socket` is the path of its socket once it has been started."""

    process: subprocess.Popen[bytes] | None = None
    socket = ""

    def start(self) -> None:
        """Starts the server; jobs that come before it listens are plain processes."""
        self.socket = os.path.join(own_folder(), "socket")
        self.process = subprocess.Popen(self.command(), env=os.environ | {"OMP_NUM_THREADS": "1"})

    def command(self) -> list[str]:
        """The command line of the server."""
        return [sys.executable, "-P", "-m", "fedgrid.jobs.warm.server", self.socket, str(os.getpid())]

    def stop(self) -> None:
        """Ends the server."""
        if self.process:
            self.process.kill()  # jobs live on
            self.process.wait()
            shutil.rmtree(os.path.dirname(self.socket), ignore_errors=True)
