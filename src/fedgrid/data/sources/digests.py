"""What files hold, as digests; a file that has not changed since is not read again.

Known digests are in the user's cache, one JSON file for each folder or file that is requested: by path, the size,
the times, the inode and the digest. The time of modification alone proves nothing, since archives and copies set it;
the time of the inode's last change (ctime) is the system's own. The cache is not in the store, where a dry run leaves
no trace, and a job that builds something reads every file again (`reading_again`).
"""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from fedgrid.errors import UserError, reason
from fedgrid.files import cache, read_json, write_json

SETTLED = 2.0
"Seconds after which a change of a file shows in its time for certain; of a younger file nothing is remembered."
_REMEMBERING = ContextVar("remembering", default=True)


def digests(files: Iterable[Path], top: Path) -> dict[str, str]:
    """By path relative to `top`, in order, the SHA-256 of each file; UserError for one that cannot be read."""
    return _looked_up(files, top, top)


def digest(file: Path) -> str:
    """SHA-256 of one file."""
    return _looked_up([file], file.parent, file)[file.name]


@contextmanager
def reading_again() -> Iterator[None]:
    """Within it, every digest is that of the bytes as they are now, whatever is remembered."""
    token = _REMEMBERING.set(False)
    try:
        yield
    finally:
        _REMEMBERING.reset(token)


def _looked_up(files: Iterable[Path], top: Path, asking: Path) -> dict[str, str]:
    """As `digests`; what is known of them is kept under the name of what was `asking` for."""
    memory = cache("digests") / f"{hashlib.sha256(os.fsencode(asking.resolve())).hexdigest()[:16]}.json"
    remembered, now = _remembered(memory), time.time()
    entries: dict[str, list[Any]] = {}
    for file in sorted({*files}):
        name, stat = file.relative_to(top).as_posix(), _stat(file)
        state = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
        earlier_state, content = remembered.get(name, (None, ""))
        if earlier_state != state:
            content = _digest(file)
        entries[name] = [state if now - max(stat.st_mtime, stat.st_ctime) > SETTLED else None, content]
    if entries != remembered:
        with suppress(UserError):  # it only saves time
            write_json(memory, entries)
    return {name: content for name, (_, content) in entries.items()}


def _remembered(memory: Path) -> dict[str, Any]:
    """By name, the state in which a file was last seen and its digest; nothing where everything must be read again."""
    if not _REMEMBERING.get():
        return {}
    try:
        return read_json(memory)
    except UserError:
        return {}


def _stat(file: Path) -> os.stat_result:
    with _readable(file):
        return file.stat()


def _digest(file: Path) -> str:
    with _readable(file), open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({reason(error)})") from error
