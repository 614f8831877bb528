"""Errors that a user can fix: shown as one sentence, without a traceback, with exit code 2."""

import difflib
import errno
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO


class UserError(Exception):
    """A mistake in a study, a command or the user's files; the message is one sentence naming what to change."""


class Damaged(UserError):
    """A file of the store that no longer holds what was written; a job that needs it removes it."""

    def __init__(self, path: Path, why: str):
        super().__init__(f"{path}: damaged ({why}); delete it, and the same command makes it again")
        self.path, self.why = path, why

    def removed(self) -> UserError:
        """The error once the file is out of the way."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            return self
        return UserError(f"{self.path}: damaged ({self.why}); it was removed, and the same command makes it again")


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
CLOSED = {errno.EROFS, errno.EACCES, errno.EPERM}
BROKEN = {errno.EIO, errno.ESTALE, errno.ENOLCK, errno.EMFILE, errno.ENFILE}
OF_THE_MACHINE = FULL | CLOSED | BROKEN
"Errors of disks and folders that a user can fix; other errors of the operating system are bugs."


PREFIX = "fedgrid: "
"With this a sentence for the user begins."
MOST_LETTERS = 2000
"Letters of a sentence."
CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
"Characters that a terminal obeys and does not show."


def reason(error: OSError) -> str:
    """What the operating system says, in its own words, whichever library raised the error."""
    return os.strerror(error.errno) if error.errno else str(error)


def sentence(error: UserError | OSError) -> str:
    """The error in one sentence, with the path where it has one."""
    if isinstance(error, UserError):
        return str(error)
    return f"{error.filename}: {reason(error)}" if error.filename else reason(error)


def complain(error: UserError | OSError) -> int:
    """Says the sentence on standard error and returns the exit code of a user's mistake; raises any other error."""
    if isinstance(error, OSError) and error.errno not in OF_THE_MACHINE:
        raise error
    # a path may hold control characters
    line = CONTROL.sub(lambda character: repr(character[0])[1:-1], " ".join(sentence(error).splitlines()))
    if len(line) > MOST_LETTERS:  # the key comes before a long value, what is allowed after it
        line = f"{line[: MOST_LETTERS - 300]} … {line[-300:]}"
    say_notice(line)
    return 2


def escape_unprintable() -> None:
    """Has standard output and error print an escape for a character that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a notebook has streams of its own, which print everything
            stream.reconfigure(errors="backslashreplace")


def say(text: str, stream: TextIO) -> None:
    """Prints a line at once; on a full disk it is lost, for no job fails over what it wanted to say."""
    try:
        line = f"{text.encode(errors='backslashreplace').decode()}\n"
        stream.write(line)  # in one piece, or a signal may fall between a line and its end
        stream.flush()
    except OSError as error:
        if error.errno not in OF_THE_MACHINE:
            raise
        _forget(stream)


def say_notice(text: str) -> None:
    """Prints a sentence for the user on standard error, as `say` does."""
    say(f"{PREFIX}{text}", sys.stderr)


def _forget(stream: TextIO) -> None:
    """Empties the buffer of a stream, or its process would end with the exit code of a failure."""
    duplicate, nowhere = os.dup(stream.fileno()), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    stream.flush()
    os.dup2(duplicate, stream.fileno())
    os.close(duplicate)
    os.close(nowhere)


MOST_NAMES = 60
"Names that a sentence may list."


def nearest(word: object, known: Iterable[str], renamed: Mapping[str, str] | None = None) -> str:
    """The end of a sentence about an unknown `word`: the closest of the `known` names, or all where they are few.

    `renamed` holds names of earlier versions, each with the one that took its place.
    """
    if renamed and str(word) in renamed:
        return f"it is called '{renamed[str(word)]}' now"
    names = sorted(known)
    if not names:
        return "there are none"
    swapped = [name for name in names if sorted(name) == sorted(str(word))]
    close = swapped or difflib.get_close_matches(str(word), names, n=1, cutoff=0.6)
    if close:
        quoted = [f"'{name}'" for name in close]
        return f"did you mean {' or '.join(quoted)}?"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"known: {', '.join(names[:MOST_NAMES])}{more}"
