"""The fork server. It imports libraries only; a job imports fedgrid from where the job's own environment says.

Started as ``python -m fedgrid.jobs.warm.server SOCKET PARENT``; it ends with PARENT, the process that started it. A
client connects, hears that a process is ready for its job, and passes its standard output and error, the length of a
message in 8 bytes, and the message, which is JSON: {argv, cwd, env}. The exit code comes back.
"""

import contextlib
import importlib
import json
import os
import shutil
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from fedgrid.jobs.warm import LIBRARIES, enter_job
from fedgrid.jobs.warm.client import READY, SIGNALS

LOOK = 0.5
"Seconds between looks whether the parent has ended."


def main(path: str, parent: int) -> None:
    """Serves until the parent (a process number) ends or SIGTERM comes; removes the socket's folder."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # jobs are forked with them blocked; SIGTERM ends the loop below
    for library in LIBRARIES:
        importlib.import_module(library)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the jobs
    partial = f"{path}.starting"
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(partial)
            listener.listen(128)
            listener.settimeout(LOOK)
            os.rename(partial, path)  # a client sees a socket only once it is listening
            while os.getppid() == parent and signal.SIGTERM not in signal.sigpending():
                with contextlib.suppress(OSError):  # no client came, or no more processes are allowed
                    _fork_job(listener)
    finally:
        shutil.rmtree(Path(path).parent, ignore_errors=True)


def _fork_job(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        if os.fork():
            return
        try:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _serve(connection)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)


def _serve(connection: socket.socket) -> None:
    """One job, in its own process."""
    os.register_at_fork(after_in_child=connection.close)  # what the job forks may outlive it, and the client waits
    try:
        job, descriptors = _receive(connection)
    except OSError:
        return
    _take_output(*descriptors)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    enter_job()
    _forget_code()
    threading.Thread(target=_follow_client, args=(connection,), daemon=True).start()
    code = _run(*job["argv"])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # the log's disk may be full
            stream.flush()
    with contextlib.suppress(OSError):  # the client may have ended
        connection.sendall(str(code).encode())


def _take_output(*descriptors: int) -> None:
    """Makes the descriptors standard output and error, with streams that know what these are: a file, or a pipe."""
    for target, name, descriptor in zip((1, 2), ("stdout", "stderr"), descriptors, strict=True):
        os.dup2(descriptor, target)
        os.close(descriptor)
        stream = open(target, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The job of a client and its descriptors; OSError where it only looked, was killed, or has lost patience."""
    connection.sendall(READY)
    length, descriptors, *_ = socket.recv_fds(connection, 8, 2)
    message = connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)
    if not message or len(message) < int.from_bytes(length, "big"):
        raise ConnectionResetError
    return json.loads(message), descriptors


def _forget_code() -> None:
    """Lets the job import fedgrid from its own PYTHONPATH: this process has some of it, from the server's."""
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    for name in [name for name in sys.modules if name.partition(".")[0] == "fedgrid"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def _follow_client(connection: socket.socket) -> None:
    """A byte from the client is a signal that it got; its end is the end of the job."""
    while connection.recv(1):
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGKILL)


def _run(module: str, *arguments: str) -> int:
    try:
        return importlib.import_module(module).main(list(arguments)) or 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
