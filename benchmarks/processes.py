"""Processes that are measured. They talk in lines: for every line that they read they answer with one line of JSON."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OVER = "the time was over"
MOST_PROCESSES = 8
"That are asked at once."


class Failed(RuntimeError):
    """A process has failed; the message is what it said, or how it ended."""


class Worker:
    """A process that does something whenever it is asked to: one round, if its module is `benchmarks.worker`."""

    def __init__(self, module: str = "benchmarks.worker", /, **job: Any):
        self.job = job
        threads = str(job.get("threads", 1))
        environment = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        command = [sys.executable, "-m", module, json.dumps(job)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def ask(self, question: Any = "go") -> None:
        """Asks for something; of a process that has ended, `answer` tells."""
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()

    def answer(self, deadline: float = float("inf")) -> dict[str, Any]:
        """Waits until `deadline`, in seconds of `time.monotonic`.

        TimeoutError then; Failed where the process says so, or has ended.
        """
        left = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
        try:
            line = self.lines.get(timeout=left)
        except queue.Empty:
            raise TimeoutError(OVER) from None
        if not line:
            raise Failed(f"the worker {self.job} ended with code {self.process.wait()}")
        reply = json.loads(line)
        if error := reply.get("error"):
            raise Failed(error)
        return reply

    def round(self, question: Any = "go", deadline: float = float("inf")) -> dict[str, Any]:
        """Asks, and waits for the answer: of a round, seconds of its parts and memory."""
        self.ask(question)
        return self.answer(deadline)

    def close(self) -> None:
        """Ends the process, which finishes what it does."""
        self._hang_up()
        self.process.wait()

    def kill(self) -> None:
        """Ends the process at once."""
        self.process.kill()
        self._hang_up()
        with suppress(subprocess.TimeoutExpired):  # a driver may hold on to it, which is no reason to wait for ever
            self.process.wait(timeout=10)

    def _hang_up(self) -> None:
        with suppress(BrokenPipeError):
            self.process.stdin.close()


@contextmanager
def together(jobs: Iterable[Mapping[str, Any]]) -> Iterator[list[Worker]]:
    """A worker for every job, as long as ``with`` lasts."""
    workers: list[Worker] = []
    try:
        workers += (Worker(**job) for job in jobs)
        yield workers
    finally:
        for worker in workers:
            worker.kill()


def answers(
    module: str, job: Mapping[str, Any], questions: Iterable[Mapping[str, Any]], deadline: float, patience: float
) -> Iterator[dict[str, Any]]:
    """Every question with what a process that serves says to it, or with the ``error``, which hides no other answer.

    A new process goes on after one that has ended, that is silent for `patience` seconds, or whose GPU has failed: CUDA
    refuses everything after that.
    """
    worker = None
    try:
        for question in questions:
            if time.monotonic() >= deadline:
                yield {**question, "error": OVER}
                continue
            worker = worker or Worker(module, **job)
            try:
                reply = worker.round(question, min(deadline, time.monotonic() + patience))
            except (Failed, TimeoutError) as error:
                reply = {"error": str(error)}
                if isinstance(error, TimeoutError) or "CUDA" in str(error) or worker.process.poll() is not None:
                    worker.kill()
                    worker = None
            yield {**question, **reply}
    finally:
        if worker:
            worker.kill()


def answers_of_many(
    module: str, job: Mapping[str, Any], questions: Sequence[Mapping[str, Any]], deadline: float, patience: float
) -> Iterator[dict[str, Any]]:
    """`answers` of several processes at once, in the order in which these give them; half of the cores have one."""
    processes = max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) // 2, len(questions)))
    given: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def ask(some: Iterable[Mapping[str, Any]]) -> None:
        try:
            for answer in answers(module, job, some, deadline, patience):
                given.put(answer)
        finally:
            given.put(None)  # also after an error, or who waits would wait for ever

    with ThreadPoolExecutor(processes) as threads:
        asked = [threads.submit(ask, questions[number::processes]) for number in range(processes)]
        for _ in asked:
            yield from iter(given.get, None)
        for thread in asked:
            thread.result()


def serve(answer: Callable[..., dict[str, Any]]) -> None:
    """The other end of `answers`: a question's entries are the arguments of `answer`."""
    for line in sys.stdin:
        try:
            reply = answer(**json.loads(line))
        except Exception as error:
            reply = {"error": first_line(error)}
        print(json.dumps(reply), flush=True)


def first_line(error: Exception) -> str:
    """An error's kind and the first line of what it says."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
