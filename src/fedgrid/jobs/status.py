"""What the process of a cell notes in the store while it has no results, and `fedgrid status` reads."""

import json
import os
import re
import socket
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import fedgrid
from fedgrid.command import output_of
from fedgrid.errors import Damaged, UserError, sentence
from fedgrid.files import write_text
from fedgrid.jobs.machine import peak_memory
from fedgrid.jobs.signals import INTERRUPTIONS, ignore_signals
from fedgrid.loading import CODE, copy_of

TIME_LIMIT = "time limit"
"Reason of a SIGTERM: the time limit of the allocation."
NEAR, PATIENCE = 90, 10
"""Seconds before the end of an allocation from which on a SIGTERM is put down to that end; seconds that squeue may
take."""
TIME_LEFT = re.compile(r"(\d+):(\d\d)")
OUT_OF_MEMORY = ("out of memory", "allocate memory")
"Parts of the errors that torch raises for lack of memory."
PACKAGE, INSTALLED = Path(fedgrid.__file__).resolve().parent, "site-packages"
"What is no user's own file, though a folder of theirs may hold it: fedgrid, and the libraries of an environment."
STATUS_FILE_BYTES = 2048
"Smallest size of a status file, so that on a full disk how a cell ends still finds room in it."


@dataclass(frozen=True)
class Note:
    """How a cell is doing; `began` is when its process did, `time` when it noted this, in seconds since 1970."""

    state: str = ""
    "running, failed or interrupted."
    reason: str = ""
    frames: tuple[str, ...] = ()
    "Where in the user's own files it failed, the call before that; see `own_frames`."
    round: int = 0
    rounds: int = 0
    seconds: float = 0.0
    "Of training so far."
    memory: float = 0.0
    "Most so far, in MB."
    host: str = ""
    pid: int = 0
    job: str = ""
    "Of SLURM, or empty."
    began: float = 0.0
    time: float = 0.0

    @classmethod
    def read(cls, file: Path) -> "Note":
        """The note in a file, which may lack fields unknown to earlier releases; ValueError for a damaged one."""
        content = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"{file} holds no note")
        known = {field.name: content[field.name] for field in fields(cls) if field.name in content}
        return cls(**known | {"frames": tuple(known.get("frames", ()))})

    @classmethod
    def read_if_possible(cls, file: Path) -> "Note":
        """The note in a file; one without a state where there is none, or where it is damaged."""
        try:
            return cls.read(file)
        except (FileNotFoundError, ValueError):
            return cls()


class Status:
    """A small file in the store, a `Note` on how a cell is doing; gone when the cell has its results.

    The first note has to succeed, for where it cannot be written, results cannot either. Later ones are not worth a
    cell: on a disk that is full they overwrite the file where it lies.
    """

    def __init__(self, file: Path, rounds: int):
        self.file, self.written = file, 0.0
        who = Note(host=socket.gethostname(), pid=os.getpid(), job=os.environ.get("SLURM_JOB_ID", ""))
        self.note = replace(who, rounds=rounds, began=time.time())

    def running(self, round_: int = 0, seconds: float = 0.0) -> None:
        """Notes the round that is done, and the seconds of training, at most once a second."""
        self.note = replace(self.note, round=round_, seconds=seconds)
        if not self.written:
            self._write("running")
        elif time.monotonic() - self.written >= 1:
            self._write_if_possible("running")

    def failed(self, reason: str, frames: Sequence[str] = ()) -> None:
        """Records why there are no results, and where in the user's own files that was."""
        self.note = replace(self.note, frames=tuple(frames))
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
            with suppress(OSError), open(self.file, "r+b") as file:  # to overwrite it needs no free disk space
                encoded, size = self._text(state, reason).encode(), os.fstat(file.fileno()).st_size
                if len(encoded) <= size:
                    file.write(encoded.ljust(size))

    def _write(self, state: str, reason: str = "") -> None:
        self.written = time.monotonic()
        write_text(self.file, self._text(state, reason))

    def _text(self, state: str, reason: str) -> str:
        now = replace(self.note, state=state, reason=reason, memory=peak_memory() / 1e6, time=time.time())
        return json.dumps(asdict(now)).ljust(STATUS_FILE_BYTES)


@contextmanager
def noted(status: Status, references: Sequence[str] = ()) -> Iterator[None]:
    """Within it a cell is worked on; notes that it has results, or why it has none, and raises that again.

    `references` are those of its components: names, or paths of the user's own files.
    """
    try:
        with _failures_noted(status, references):
            yield
    except INTERRUPTIONS:
        status.interrupted(termination_reason())
        raise
    status.done()


@contextmanager
def _failures_noted(status: Status, references: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except (UserError, OSError) as error:
        ignore_signals()
        final = error.removed() if isinstance(error, Damaged) else error
        status.failed(sentence(final))
        raise final from error
    except Exception as error:
        ignore_signals()
        memory = "out of memory: " if _of_memory(error) else ""
        status.failed(f"{memory}{type(error).__name__}: {error}", own_frames(error, references))
        raise


def own_frames(error: BaseException, references: Iterable[str]) -> list[str]:
    """The lines of the user's own files that led to an error, the first call first, each with the path of its file.

    `references` name these files; a run trains with a copy of them (`fedgrid.loading.copy_of`).
    """
    folders = {Path(reference).parent for reference in references if reference.endswith(".py")}
    code = os.environ.get(CODE)
    copies = {(copy_of(folder, Path(code)) if code else folder).resolve(): folder for folder in folders}
    frames = []
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename).resolve()
        for copy, folder in copies.items():
            if file.is_relative_to(copy) and not (file.is_relative_to(PACKAGE) or INSTALLED in file.parts):
                frames.append(f"{folder / file.relative_to(copy)}:{frame.lineno}, in {frame.name}: {frame.line}")
    return frames


def _of_memory(error: Exception) -> bool:
    """Whether memory, of the processor or the GPU, ran out; torch reports it in several ways."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(pattern in str(error) for pattern in OUT_OF_MEMORY)


def termination_reason() -> str:
    """Why this process received SIGTERM, if its scheduler tells; else empty."""
    number = os.environ.get("SLURM_JOB_ID")
    output = output_of(["squeue", "--noheader", "--jobs", number, "--format", "%L"], PATIENCE) if number else None
    # minutes and seconds; with hours or days before them, the end is not near
    time_left = TIME_LEFT.fullmatch((output or "").strip())
    return TIME_LIMIT if time_left and 60 * int(time_left[1]) + int(time_left[2]) <= NEAR else ""
