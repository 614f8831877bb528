"""A job that another program starts, such as a notebook, a command or a test: in a process of its own.

Whatever the program has imported, replaced or set reaches no job, and nothing that a job imports reaches the program.
The libraries are imported once, by a warm worker that ends with the program.
"""

import atexit
import functools
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Protocol, TextIO

import fedgrid
from fedgrid.errors import PREFIX, UserError, say
from fedgrid.jobs.job_process import ASKED_TO_END, in_job
from fedgrid.jobs.warm import CLIENT, VARIABLE, Worker
from fedgrid.jobs.warm.client import KILLED, SIGNALS, interrupt, submit, wait

PATIENCE = 10.0
"Seconds that the last output of a job may take to arrive, once the job has ended."
_starting = threading.Lock()
_workers: list[Worker] = []


class Main(Protocol):
    """What a job does with its arguments, or with those of the command line; it returns an exit code."""

    def __call__(self, argv: Sequence[str] | None = None) -> int: ...


def job(module: str) -> Callable[[Callable[..., int]], Main]:
    """Makes the ``main`` of a job's module work in a process that was started for a job; elsewhere it starts one."""

    def decorated(work: Callable[..., int]) -> Main:
        @functools.wraps(work)
        def main(argv: Sequence[str] | None = None) -> int:
            started_for_it = work.__module__ == "__main__" or in_job()
            return work(argv) if started_for_it else run(module, argv)

        return main

    return decorated


def end_with_signals() -> None:
    """From now on the signals that end a job end this process, at once; before, they waited."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _own_path() -> dict[str, str]:
    """The variable by which another process imports the fedgrid of this one; nothing where every process finds it."""
    folder = Path(fedgrid.__file__).parents[1]
    if folder.name in ("site-packages", "dist-packages"):  # before Python's own library, it would hide parts of that
        return {}
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def run(
    module: str,
    arguments: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    errors: TextIO | None = None,
    heeds_signals: bool = False,
) -> int:
    """Runs a job, ``python -m MODULE ARGUMENTS``, and waits for it; returns its exit code.

    Its output goes to this program's standard output, and to `errors` or standard error. `environment`, which says
    where fedgrid is imported from, is added to this process's own. Ctrl-C interrupts the job, and is raised once the
    job has written its checkpoint; the program's SIGTERM and SIGUSR1 interrupt it too, where it `heeds_signals`.
    """
    argv = [module, *(sys.argv[1:] if arguments is None else arguments)]
    variables = {**os.environ, **(environment or _own_path())}
    with _descriptor(sys.stdout, sys.__stdout__) as output, _descriptor(errors or sys.stderr, sys.__stderr__) as error:
        started = _started(argv, variables, output, error)
        with _passing_on(started) if heeds_signals else nullcontext():
            return _awaited(started)


def require(
    module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None, remarks: bool = True
) -> None:
    """As `run`, for a job that has to succeed: the sentence with which it fails is that of a UserError.

    Without `remarks`, what one that succeeds says on standard error is left out.
    """
    unsaid = io.StringIO()
    errors = _Errors(sys.stderr if remarks else unsaid)
    code = run(module, arguments, environment, errors)
    if code:
        sys.stderr.write(unsaid.getvalue())
        raise UserError(errors.sentences[-1] if errors.sentences else f"{module} ended with exit code {code}")
    for line in errors.sentences:
        say(f"{PREFIX}{line}", sys.stderr)


class _Errors(io.StringIO):
    """The standard error of a job: the sentences of fedgrid are kept, the `others` go on to a stream."""

    def __init__(self, others: TextIO) -> None:
        super().__init__()
        self.sentences: list[str] = []
        self.others = others

    def write(self, line: str) -> int:
        if line.startswith(PREFIX):
            self.sentences.append(line.removeprefix(PREFIX).rstrip("\n"))
        else:
            self.others.write(line)
        return len(line)


def _started(argv: Sequence[str], environment: Mapping[str, str], output: int, errors: int) -> "_WarmJob | _PlainJob":
    connection = submit(_socket(), argv, environment, [output, errors])
    if connection:
        return _WarmJob(connection)
    command = [sys.executable, "-S", "-E", str(CLIENT), *argv]  # it starts with signals that wait for the job
    return _PlainJob(subprocess.Popen(command, env={**environment, VARIABLE: ""}, stdout=output, stderr=errors))


@dataclass(frozen=True)
class _WarmJob:
    """A job of a warm worker; it ends with the connection, and so with this process."""

    connection: socket

    def wait(self) -> int:
        code = wait(self.connection)
        self.connection.close()
        return KILLED if code is None else code

    def interrupt(self) -> None:
        interrupt(self.connection)


@dataclass(frozen=True)
class _PlainJob:
    """A job where no worker listens."""

    process: subprocess.Popen[bytes]

    def wait(self) -> int:
        code = self.process.wait()
        return KILLED if code < 0 else code

    def interrupt(self) -> None:
        self.process.terminate()


def _awaited(job: _WarmJob | _PlainJob) -> int:
    try:
        return job.wait()
    except KeyboardInterrupt:
        job.interrupt()
        job.wait()
        raise


@contextmanager
def _passing_on(job: _WarmJob | _PlainJob) -> Iterator[None]:
    """Within it, the signals with which schedulers end a program interrupt the job."""
    before = {number: signal.signal(number, lambda *_: job.interrupt()) for number in ASKED_TO_END}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _socket() -> str:
    """The socket of the worker of the run that this process belongs to, or of this process's own; it listens."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    with _starting:
        worker = _workers[-1] if _workers else None
        if worker is None or not worker.listens():
            worker = Worker()
            worker.start()
            _workers.append(worker)
            atexit.register(_stop, worker, os.getpid())
            worker.listens()
        return worker.socket


def _stop(worker: Worker, pid: int) -> None:
    if os.getpid() == pid:  # and not in a process that was forked from it
        worker.stop()


@contextmanager
def _descriptor(stream: TextIO, standard: TextIO | None) -> Iterator[int]:
    """A file descriptor whose output comes out of a stream, which in a notebook is not the `standard` one."""
    if standard and stream is standard:
        stream.flush()
        yield stream.fileno()
        return
    reader, writer = os.pipe()
    pump = threading.Thread(target=_pump, args=(reader, stream), daemon=True)
    pump.start()
    try:
        yield writer
    finally:
        os.close(writer)
        pump.join(PATIENCE)


def _pump(reader: int, stream: TextIO) -> None:
    with open(reader, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            stream.write(line)
            stream.flush()
