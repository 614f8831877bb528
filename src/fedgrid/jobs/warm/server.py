"""The fork server. It imports libraries only, never fedgrid itself, so that a job always runs the code as it is now.

Started as ``python -m fedgrid.jobs.warm.server SOCKET PARENT``; it ends with PARENT, the process that started it. A
client connects, passes its standard output and error, and sends one JSON line {argv, cwd, env}; the exit code comes
back.
"""

import contextlib
import importlib
import json
import os
import shutil
import signal
import socket
import socketserver
import sys
import threading
import traceback
from pathlib import Path

from fedgrid.jobs.warm import LIBRARIES


class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks for every connection."""

    max_children = 1024
    request_queue_size = 128

    def __init__(self, path: str, parent: int):
        self.parent = parent
        super().__init__(path, Job)

    def service_actions(self) -> None:
        """Called every half second: reaps finished jobs, and ends with the parent."""
        super().service_actions()
        if os.getppid() != self.parent:
            self._BaseServer__shutdown_request = True  # shutdown() itself would wait for this very thread


class Job(socketserver.BaseRequestHandler):
    """One job, in its own process."""

    def handle(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        message, descriptors, *_ = socket.recv_fds(self.request, 1 << 16, 2)
        while not message.endswith(b"\n"):
            more = self.request.recv(1 << 16)
            if not more:  # the client died while it spoke
                return
            message += more
        job = json.loads(message)
        for target, descriptor in enumerate(descriptors, start=1):
            os.dup2(descriptor, target)
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["env"])
        threading.Thread(target=self._follow_client, daemon=True).start()
        code = _run(*job["argv"])
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # where the log lies, the disk may be full
                stream.flush()
        with contextlib.suppress(OSError):  # the client may be gone
            self.request.sendall(str(code).encode())

    def _follow_client(self) -> None:
        """A byte from the client is a SIGTERM or Ctrl-C that it got; its end is the end of the job."""
        while self.request.recv(1):
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


def main(path: str, parent: int) -> None:
    """Serves until the parent (a process number) ends or SIGTERM comes; removes the socket's folder."""
    for library in LIBRARIES:
        importlib.import_module(library)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    partial = f"{path}.starting"
    try:
        with Server(partial, parent) as server:
            os.rename(partial, path)  # a client sees a socket only once it is listening
            server.serve_forever()
    finally:
        shutil.rmtree(Path(path).parent, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
