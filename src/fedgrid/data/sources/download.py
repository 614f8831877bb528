"""Files from the network: resumed after an interruption, verified, never half there."""

import contextlib
import hashlib
import http.client
import os
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from fedgrid.errors import OF_THE_MACHINE, UserError, reason
from fedgrid.files import lock

WAITS = (1.0, 4.0, 10.0)
"Seconds before each further attempt; an attempt that got further than the one before starts the count again."
TIMEOUT = 60.0
"Seconds without a byte after which a connection is given up."
BLOCK = 1 << 20
TRANSIENT = (408, 425, 429)
"Refusals (4xx) that a later attempt may overcome."


SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 and later


def fetch(url: str, file: Path, sha256: str | None = None, md5: str | None = None) -> Path:
    """`file`, downloaded unless it is there and right; needs no network then.

    What has arrived is kept as ``<file>.part`` and continued by a later attempt or run (HTTP Range). The file gets its
    name when it is complete (Content-Length) and its checksum is right; without a known checksum a zip archive must
    pass its own CRC sums, and any other file is only known to be complete. Raises UserError with the URL, the reason
    and where to put the file by hand.
    """
    if not _flaw(file, sha256, md5):
        return file
    part = file.with_name(file.name + ".part")
    with alone(file.parent):
        if not _flaw(file, sha256, md5):
            return file  # another process has just downloaded it
        try:
            if not (why := _complete(url, part)):
                if not (why := _flaw(part, sha256, md5, file.suffix)):
                    os.replace(part, file)
                    return file
                part.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{file}: cannot be written ({reason(error)})") from error
    raise UserError(f"{file.name} could not be downloaded ({url}: {why}); put it there yourself as {file}")


def unpacked(archive: Path, name: str) -> Path:
    """The folder `name` that the tar `archive` holds, unpacked beside it, completely or not at all.

    Raises UserError for a damaged archive or one without that folder.
    """
    target = archive.parent / name
    with alone(archive.parent):
        if not target.is_dir():
            _unpack(archive, target)
    return target


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lets one process at a time download into `folder`, which is made; the others wait."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".download.lock", "w")  # noqa: SIM115  closed below
    except OSError as error:
        raise UserError(f"downloads: cannot write in {folder} ({error.strerror})") from error
    with file:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            lock(file, wait=True)
        yield


def _unpack(archive: Path, target: Path) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=archive.parent))
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(temporary, members=_inside(tar), **SAFELY)
        os.replace(temporary / target.name, target)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise UserError(f"{archive}: cannot be unpacked to {target} ({error}); delete it if it is damaged") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _inside(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of an archive; TarError for one that is not a file or folder below the target."""
    for member in tar:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"'{member.name}' is not a regular file in the archive")
        yield member


def _complete(url: str, part: Path) -> str:
    """Downloads to `part` in as many attempts as are worth it; why that failed, empty where it did not."""
    failures = 0
    while True:
        before = _size(part)
        try:
            _continue(url, part)
            return ""
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) in OF_THE_MACHINE:  # no other attempt makes room on a disk
                raise
            refused = isinstance(error, HTTPError) and 400 <= error.code < 500 and error.code not in TRANSIENT
            failures = 1 if _size(part) > before else failures + 1
            if refused or failures > len(WAITS):
                return " ".join(str(error).split()) or type(error).__name__
        time.sleep(WAITS[failures - 1])


def _continue(url: str, part: Path) -> None:
    """Downloads the rest of `part`; OSError where that fails or the connection ends early."""
    have = _size(part)
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return  # an earlier run was stopped between the last byte and the verification
        part.unlink()
        raise ConnectionError("the file on the server has changed since the download began") from error
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            have = 0  # the server ignores ranges and sends everything
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()
            raise ConnectionError("the server sent a different range than requested")
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        _save(response, part, have, total)
    if total is not None and _size(part) != total:
        raise ConnectionError(f"the connection ended after {_size(part):,} of {total:,} bytes")


def _save(response: http.client.HTTPResponse, part: Path, have: int, total: int | None) -> None:
    from tqdm import tqdm

    name = part.name.removesuffix(".part")
    if not sys.stderr.isatty():
        size = f" ({total:,} bytes)" if total else ""
        print(f"fedgrid: downloading {name}{size}", file=sys.stderr)
    bar = tqdm(total=total, initial=have, desc=name, unit="B", unit_scale=True, file=sys.stderr, disable=None)
    with bar, open(part, "ab" if have else "wb") as out:
        while block := response.read(BLOCK):
            out.write(block)
            bar.update(len(block))


def _flaw(file: Path, sha256: str | None, md5: str | None, suffix: str = "") -> str:
    """What is wrong with a file of the kind `suffix` (its own where none is given); empty where nothing is."""
    if not file.is_file():
        return "there is no file"
    for name, expected in (("sha256", sha256), ("md5", md5)):
        if expected:
            with open(file, "rb") as content:
                digest = hashlib.file_digest(content, name).hexdigest()
            return "" if digest == expected else f"its {name} is {digest}, not {expected}"
    if (suffix or file.suffix) != ".zip":
        return ""
    try:
        with zipfile.ZipFile(file) as archive:
            bad = archive.testzip()
    except (OSError, zipfile.BadZipFile) as error:
        return f"it is not a whole zip archive ({error})"
    return f"its member {bad} is damaged" if bad else ""


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
