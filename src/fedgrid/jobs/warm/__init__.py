"""A warm worker: importing torch takes seconds, so one server imports it once and forks a process for every cell.

It serves the cells of a run on this machine, of a pack on a cluster's node, and of a notebook. The client stands where
the plain process would stand, and becomes it where no server listens: either way a job is one process, with its own
exit code, output and memory.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from fedgrid.jobs.machine import lives
from fedgrid.jobs.warm.client import connected

CLIENT = Path(__file__).with_name("client.py")
VARIABLE = "FEDGRID_WARM_SOCKET"
"Environment variable: the socket of the worker that serves a run's jobs."
JOB = "FEDGRID_JOB"
"""Environment variable: the number of a process that was started for one job: nothing but the job's own code, and what
that names, was imported there."""
LIBRARIES = ("torch", "sympy", "numpy", "pyarrow.parquet")
"Libraries that every cell imports; torch.vmap imports sympy on first use."

PREFIX = "fedgrid-worker-"
"Start of the name of a socket's folder; the number of the process that started the worker follows."
STARTING = 120.0
"Seconds that a worker may take until it listens."
LOOK = 0.02
"Seconds between looks at whether it does."


def enter_job() -> None:
    """Records that this process was started for one job."""
    os.environ[JOB] = str(os.getpid())


def in_job() -> bool:
    """Whether this process was started for a job; one that it starts itself was not."""
    return os.environ.get(JOB) == str(os.getpid())


class Worker:
    """A server that ends with this process; `socket` is the path of its socket once it has been started.

    The path of a socket may have 107 characters at most, so it lies in the system's folder for temporary files.
    """

    process: subprocess.Popen[bytes] | None = None
    socket = ""

    def start(self) -> None:
        """Starts the server; jobs that come before it listens are plain processes."""
        remove_leftovers()
        self.owner = os.getpid()
        self.socket = os.path.join(tempfile.mkdtemp(prefix=f"{PREFIX}{self.owner}-"), "socket")
        self.process = subprocess.Popen(self.command(), env=os.environ | {"OMP_NUM_THREADS": "1"})

    def command(self) -> list[str]:
        """The command line of the server."""
        return [sys.executable, "-P", "-m", "fedgrid.jobs.warm.server", self.socket, str(os.getpid())]

    def listens(self) -> bool:
        """Whether the server takes jobs; waits for one that is starting."""
        patience = time.monotonic() + STARTING
        while self.process and self.process.poll() is None and time.monotonic() < patience:
            if os.path.exists(self.socket):
                return True
            time.sleep(LOOK)
        return False

    def stop(self) -> None:
        """Ends the server, unless this process was only forked from the one that started it."""
        if self.process and self.owner == os.getpid():
            self.process.kill()  # jobs live on
            self.process.wait()
            shutil.rmtree(os.path.dirname(self.socket), ignore_errors=True)


def remove_leftovers() -> None:
    """Removes the folders of workers whose processes were killed.

    In a container that shares the folder but not the numbers of processes, a live process seems dead. So a folder stays
    that is new, or whose socket a server listens on.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(OSError):
            mine, old = folder.stat().st_uid == os.getuid(), time.time() - folder.stat().st_mtime > STARTING
            if mine and old and pid.isdigit() and not lives(int(pid)) and not _listens(folder / "socket"):
                shutil.rmtree(folder, ignore_errors=True)


def _listens(path: Path) -> bool:
    connection = connected(str(path))
    if connection:
        connection.close()
    return connection is not None
