"""What a cell says while it is trained: to a person who watches, and to `fedgrid status`."""

import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from fedgrid.errors import UserError, say
from fedgrid.files import write_text
from fedgrid.jobs.note import Note

if TYPE_CHECKING:
    from tqdm import tqdm

    from fedgrid.engine.state.checkpoint import Progress

MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
LIMIT = "time limit"
"Reason of a SIGTERM: the time limit of the allocation."
NEAR, PATIENCE = 90, 10
"Seconds before the end of an allocation within which a request to end is for that end; seconds that squeue may take."
TIME_LEFT = re.compile(r"(\d+):(\d\d)")
LOGGED = re.compile(r"round (\d+)/\d+  accuracy ([\d.]+) % \((\w+)\)  ")
"The line of a round in a log, as `Report` says it."
STATUS_FILE_BYTES = 2048
"Bytes of a status file at least, so that on a full disk what becomes of a cell still finds room in it."


def ending() -> str:
    """Why this process received SIGTERM, if its scheduler tells; else empty."""
    command = ["squeue", "--noheader", "--jobs", os.environ.get("SLURM_JOB_ID", ""), "--format", "%L"]
    if not command[3]:
        return ""
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    time_left = TIME_LEFT.fullmatch(output.strip())  # minutes and seconds: with hours or days before them, it is no end
    return LIMIT if time_left and 60 * int(time_left[1]) + int(time_left[2]) <= NEAR else ""


class Report:
    """Round, accuracy and seconds a round: a progress bar on a terminal, else a line for every round.

    The accuracy is that at the `point` of a round at which the method is scored, as in tables.
    """

    def __init__(self, title: str, rounds: int, point: str, stream: TextIO):
        self.title, self.rounds, self.point, self.stream = title, rounds, point, stream
        self.bar: tqdm[NoReturn] | None = None
        self.spent = 0.0

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def tell(self, progress: "Progress", remark: str) -> None:
        """Says a remark, or how the last round went."""
        spent = sum(progress.seconds.values())
        pace, self.spent = f"{spent - self.spent:.2f} s/round", spent
        accuracy = self._accuracy(progress)
        scores = f"{accuracy}  {pace}" if accuracy else ""
        if self.stream.isatty():
            self._draw(progress.rounds, scores, remark)
        else:
            line = f"round {progress.rounds}/{self.rounds}  {scores}".rstrip()
            say(remark or line, self.stream)

    def _accuracy(self, progress: "Progress") -> str:
        """The latest accuracy with its round, where that is not this one; empty before the first evaluation."""
        metric = f"accuracy_{self.point}"
        accuracy = progress.record.latest(metric)
        if accuracy is None:
            return ""
        evaluated = next(round_ for round_, name, _, _ in reversed(progress.record.rows) if name == metric)
        when = "" if evaluated == progress.rounds else f", round {evaluated}"
        return f"accuracy {100 * accuracy:.2f} % ({self.point}{when})"

    def _draw(self, round_: int, scores: str, remark: str) -> None:
        if self.bar is None:  # it appears with the first round, after everything was found to be in order
            from tqdm import tqdm

            form = "{desc} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} rounds  {elapsed}<{remaining}  {postfix}"
            self.bar = tqdm(
                desc=self.title,
                file=self.stream,
                total=self.rounds,
                initial=round_,
                bar_format=form,
                dynamic_ncols=True,
            )
        if remark:
            self.bar.write(remark, file=self.stream)
        self.bar.set_postfix_str(scores, refresh=False)
        self.bar.update(round_ - self.bar.n)
        self.bar.refresh()


def logged_accuracies(log: Path) -> list[tuple[str, int, float]]:
    """What the lines of a log say of each round: point, round, mean accuracy as a fraction; nothing where no log is."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [(point, int(round_), float(percent) / 100) for round_, percent, point in LOGGED.findall(text)]


class Status:
    """A small file in the store, a `Note` on how a cell is doing; gone when the cell has its results.

    The first note has to succeed, for where it cannot be written, results cannot either. Later ones are not worth a
    cell: on a disk that is full they overwrite the file where it lies.
    """

    def __init__(self, file: Path, rounds: int):
        self.file, self.written = file, 0.0
        who = Note(host=socket.gethostname(), pid=os.getpid(), job=os.environ.get("SLURM_JOB_ID", ""))
        self.note = replace(who, rounds=rounds, began=time.time())

    def running(self, progress: "Progress | None" = None) -> None:
        """Notes the round, at most once a second."""
        if progress:
            self.note = replace(self.note, round=progress.rounds, seconds=sum(progress.seconds.values()))
        if not self.written:
            self._write("running")
        elif time.monotonic() - self.written >= 1:
            self._write_if_possible("running")

    def failed(self, reason: str) -> None:
        """Records why there are no results."""
        self._write_if_possible("failed", reason)

    def interrupted(self, reason: str = "") -> None:
        """Notes that the cell received SIGTERM and can resume."""
        self._write_if_possible("interrupted", reason)

    def done(self) -> None:
        """The results speak for themselves."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)

    def _write_if_possible(self, state: str, reason: str = "") -> None:
        try:
            self._write(state, reason)
        except UserError:
            with suppress(OSError):
                self._overwrite(self._text(state, reason))

    def _write(self, state: str, reason: str = "") -> None:
        self.written = time.monotonic()
        write_text(self.file, self._text(state, reason))

    def _overwrite(self, text: str) -> None:
        """Overwrites the file in place, which needs no free disk space."""
        encoded = text.encode()
        with open(self.file, "r+b") as file:
            if len(encoded) <= os.fstat(file.fileno()).st_size:
                file.write(encoded.ljust(os.fstat(file.fileno()).st_size))

    def _text(self, state: str, reason: str) -> str:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT / 1e6
        now = replace(self.note, state=state, reason=reason, memory=memory, time=time.time())
        return json.dumps(asdict(now)).ljust(STATUS_FILE_BYTES)
