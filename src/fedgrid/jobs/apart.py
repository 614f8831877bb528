"""A job that another program starts, such as a notebook, a command or a test: in a process of its own.

Whatever the program has imported, replaced or set reaches no job, and nothing that a job imports reaches the program.
The libraries are imported once, by a warm worker that ends with the program.
"""

import atexit
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Protocol, TextIO

import fedgrid
from fedgrid.errors import PREFIX, UserError, say_notice
from fedgrid.jobs.warm import CLIENT, VARIABLE, Worker, in_job
from fedgrid.jobs.warm.client import KILLED, SIGNALS, interrupt, submit, wait

PATIENCE = 10.0
"Seconds that the last output of a job may take to arrive, once the job has ended."
_starting = threading.Lock()
_workers: list[Worker] = []


class Main(Protocol):
    """The work of a job: takes its arguments, or those of the command line, and returns an exit code."""

    def __call__(self, argv: Sequence[str] | None = None) -> int: ...


def job(module: str) -> Callable[[Callable[..., int]], Main]:
    """Has the ``main`` of a job's module start a process for the job, unless it is called in one."""

    def decorated(work: Callable[..., int]) -> Main:
        @wraps(work)
        def main(argv: Sequence[str] | None = None) -> int:
            started_for_it = work.__module__ == "__main__" or in_job()
            return work(argv) if started_for_it else run(module, argv)

        return main

    return decorated


def _own_path() -> dict[str, str]:
    """The environment in which another process imports this process's fedgrid; empty where fedgrid is installed."""
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
    with _descriptor(sys.stdout, sys.__stdout__) as output, _descriptor(errors or sys.stderr, sys.__stderr__) as error:
        job = start(argv, output, error, environment)
        with _passing_on(job) if heeds_signals else nullcontext():
            try:
                return job.wait()
            except KeyboardInterrupt:
                job.interrupt()
                job.wait()
                raise


def require(
    module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None, remarks: bool = True
) -> None:
    """Runs a job that has to succeed; see `run`. Raises UserError, with the job's last sentence, if it fails.

    Without `remarks`, the standard error of a job that succeeds is dropped, except for sentences of fedgrid.
    """
    unsaid = io.StringIO()
    errors = _Errors(sys.stderr if remarks else unsaid)
    code = run(module, arguments, environment, errors)
    if code:
        sys.stderr.write(unsaid.getvalue())
        raise UserError(errors.sentences[-1] if errors.sentences else f"{module} ended with exit code {code}")
    for line in errors.sentences:
        say_notice(line)


class _Errors(io.StringIO):
    """The standard error of a job: keeps fedgrid's sentences, and writes everything else to `others`."""

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


@dataclass(frozen=True)
class RunningJob:
    """A job that was started.

    `wait` returns its exit code, `KILLED` where it was killed; `interrupt` sends it SIGTERM.
    """

    wait: Callable[[], int]
    interrupt: Callable[[], None]


def start(argv: Sequence[str], output: int, errors: int, environment: Mapping[str, str] | None = None) -> RunningJob:
    """Starts a job, the module and arguments in `argv`, whose output goes to two descriptors; see `run`.

    In the warm worker it ends with this process. Where no worker listens, it is a plain process.
    """
    variables = {**os.environ, **(environment or _own_path())}
    connection = submit(_socket(), argv, variables, [output, errors])
    if connection:
        return RunningJob(partial(wait, connection), partial(interrupt, connection))
    command = [sys.executable, "-S", "-E", str(CLIENT), *argv]  # it starts with signals that wait for the job
    process = subprocess.Popen(command, env={**variables, VARIABLE: ""}, stdout=output, stderr=errors)
    return RunningJob(lambda: KILLED if process.wait() < 0 else process.returncode, process.terminate)


@contextmanager
def _passing_on(job: RunningJob) -> Iterator[None]:
    """Within it, the signals with which schedulers end a program interrupt the job."""
    passed_on = [number for number in SIGNALS if number != signal.SIGINT]
    before = {number: signal.signal(number, lambda *_: job.interrupt()) for number in passed_on}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _socket() -> str:
    """The socket of a listening worker: that of the run to which this process belongs, or its own."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    with _starting:
        if not (_workers and _workers[-1].listens()):
            worker = Worker()
            worker.start()
            _workers.append(worker)
            atexit.register(worker.stop)
            worker.listens()
        return _workers[-1].socket


@contextmanager
def _descriptor(stream: TextIO, standard: TextIO | None) -> Iterator[int]:
    """A file descriptor whose output reaches a stream, which in a notebook is not the `standard` one."""
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
