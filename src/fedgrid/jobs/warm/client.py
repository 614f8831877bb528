"""Runs ``python -m MODULE ARGUMENTS`` in the warm worker where one listens, else in this process.

Called as a file, by ``python -S -E``, so that it starts in a few milliseconds. From its first lines on, a signal that
ends a job waits until the job can answer it: the signals stay blocked, in a new program as in a forked process, until
the module calls `fedgrid.jobs.signals.install_signal_handlers`.
"""

TYPE_CHECKING = False  # type checkers read it as True; importing it from typing would take milliseconds
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from socket import socket as Socket
    from typing import NoReturn
else:
    # the built-in part of `signal`: importing the rest takes milliseconds, in which a signal would end the process
    import _signal as signal

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"The signals that end a job."
if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

import os  # noqa: E402  only now can no signal break off an import
import sys  # noqa: E402

KILLED = 70
"Exit code of a job whose process was killed."
READY = b"R"
"What a client hears before it sends its job."
PATIENCE = 5.0
"Seconds for which a client waits to hear it: a server that is stopped or killed does not get the job."


def main(argv: list[str]) -> "NoReturn":
    """Does not return: ends with the job's exit code."""
    connection = submit(os.environ.get("FEDGRID_WARM_SOCKET", ""), argv, os.environ, [1, 2])
    if connection is None:
        os.execv(sys.executable, [sys.executable, "-P", "-m", *argv])
    _forward_signals(connection)
    exit_code = wait(connection)
    if exit_code == KILLED:
        print("fedgrid: the process of this job was killed", file=sys.stderr)
    os._exit(exit_code)


def connected(path: str) -> "Socket | None":
    """A connection to the server at this socket; None where none listens. Its calls have a time limit."""
    if not path or not os.path.exists(path):
        return None
    import socket

    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    try:
        connection.connect(path)
    except OSError:
        return None
    return connection


def submit(
    path: str, argv: "Sequence[str]", environment: "Mapping[str, str]", descriptors: "Sequence[int]"
) -> "Socket | None":
    """The connection to a server that has been sent the job; None where no server takes it.

    The job is the module and the arguments in `argv`. It runs in this process's working folder; its standard output
    and error are the two `descriptors`. To close the connection is to kill the job.
    """
    connection = connected(path)
    if connection is None:
        return None
    import json
    import socket

    job = {"argv": [*argv], "cwd": os.getcwd(), "env": dict(environment)}
    message = json.dumps(job).encode()
    try:
        if not connection.recv(len(READY)):
            return None
        socket.send_fds(connection, [len(message).to_bytes(8, "big")], descriptors)
        connection.sendall(message)
    except OSError:  # the server was killed, or is stopped and does not answer: this process does the job
        return None
    connection.settimeout(None)  # a job may take days
    return connection


def wait(connection: "Socket") -> int:
    """The job's exit code, with which the connection ends; `KILLED` where the job was killed."""
    try:
        answer = connection.recv(64)
    except ConnectionResetError:
        answer = b""
    connection.close()
    return int(answer or KILLED)


def interrupt(connection: "Socket") -> None:
    """Sends SIGTERM to the job."""
    from contextlib import suppress

    with suppress(OSError):  # the job has ended, and its answer is on the way
        connection.send(b"T")


def _forward_signals(connection: "Socket") -> None:
    """From now on the signals that end a job, also one that has been waiting, interrupt the job."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: interrupt(connection))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


if __name__ == "__main__":
    main(sys.argv[1:])
