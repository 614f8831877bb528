"""An archive is checked before anything of it is written: its names, its sizes, and the digest of every file."""

import json
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from fedgrid.api.archive.layout import CHECKSUMS, ENCODING, PROJECT, PROVENANCE, TOP, copy, digest
from fedgrid.api.archive.names import check_different, check_name
from fedgrid.api.archive.provenance import Provenance, from_values
from fedgrid.errors import UserError
from fedgrid.files import check_regular

MOST_FILES = 200_000
MOST_BYTES = 2**40
"Of an archive, as it lies on the disk."
MOST_TEXT = 2**28
"Bytes of a file that is read at once."
LARGEST_RATIO, ALWAYS_ALLOWED = 100, 2**26
"Bytes unpacked, by those packed, beyond a number that is allowed whatever the ratio."
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 1
"Bit of a member's flags."
HEADER = 30
"Bytes of a member's own header before its name."
KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}
BROKEN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(ValueError, OverflowError, MemoryError),
)
"What the library raises for a damaged archive."


@dataclass(frozen=True)
class Archive:
    """An archive whose names, sizes and digests are right."""

    path: Path
    file: zipfile.ZipFile
    members: Mapping[str, zipfile.ZipInfo]
    "By name."
    digests: Mapping[str, str]
    "SHA-256 of each member but the checksums."
    provenance: Provenance

    def copy(self, name: str, target: Path) -> None:
        """Writes a member to a file, and checks once more that it is what the checksums say."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "wb") as file, refusing(self.path), self.file.open(self.members[name]) as content:
            _check_digest(name, copy(content, file), self.digests[name])


@contextmanager
def checked(path: Path, room: int) -> Iterator[Archive]:
    """The archive in a file; `room` is the number of bytes that it may have unpacked.

    Raises UserError, in one sentence, for what is no archive of `fedgrid bundle`, was changed, or is unsafe to unpack.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist")
    check_regular(path, str(path), MOST_BYTES)
    with refusing(path):
        file = zipfile.ZipFile(path)
    with file:
        with refusing(path):
            members = _check_members(file, path.stat().st_size, room)
            digests = _read_checksums(file, members)
            for name, expected in digests.items():
                with file.open(members[name]) as content:
                    _check_digest(name, digest(content), expected)
            provenance = from_values(json.loads(_text(file, members, PROVENANCE)))
            if provenance.study and f"{PROJECT}/{provenance.study}" not in members:
                raise UserError("its study is not among its files")
        yield Archive(path, file, members, digests, provenance)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turns what a bad archive raises into one sentence."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}: refused, {error}") from error
    except BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path}: refused, it is not a whole archive of fedgrid bundle ({reason})") from error


def _check_members(file: zipfile.ZipFile, size: int, room: int) -> dict[str, zipfile.ZipInfo]:
    infos = file.infolist()
    if len(infos) > MOST_FILES:
        raise UserError(f"it has {len(infos):,} files, and at most {MOST_FILES:,} are allowed")
    for info in infos:
        check_name(info.orig_filename)
        _check_kind(info)
    check_different([info.orig_filename for info in infos])
    _check_sizes(infos, size, room)
    members = {info.orig_filename: info for info in infos}
    if missing := next((name for name in TOP if name not in members), ""):
        raise UserError(f"it has no {missing}, so it is not an archive of fedgrid bundle")
    return members


def _check_kind(info: zipfile.ZipInfo) -> None:
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise UserError(f"'{name}' is {KINDS.get(kind, 'a device')}, and only files are allowed")
    if info.is_dir() or info.external_attr & 0x10:
        raise UserError(f"'{name}' is a folder, and only files are allowed")
    if info.flag_bits & ENCRYPTED:
        raise UserError(f"'{name}' is encrypted")
    if info.compress_type not in METHODS:
        raise UserError(f"'{name}' is compressed by a method that is not allowed ({info.compress_type})")


def _check_sizes(infos: Sequence[zipfile.ZipInfo], size: int, room: int) -> None:
    """Raises UserError for a bomb, from what the members declare; unpacking stops at what they declare."""
    unpacked = sum(info.file_size for info in infos)
    if unpacked > room:
        raise UserError(f"it has {unpacked / 1e6:,.0f} MB unpacked, and there is room for {room / 1e6:,.0f} MB")
    if unpacked > LARGEST_RATIO * size + ALWAYS_ALLOWED:
        raise UserError(f"it has {unpacked / 1e6:,.0f} MB unpacked, which is too much for {size / 1e6:,.1f} MB")
    spans = sorted((info.header_offset, info.header_offset + HEADER + info.compress_size) for info in infos)
    if any(end > start for (_, end), (start, _) in pairwise(spans)) or (spans and spans[-1][1] > size):
        raise UserError("its files overlap")


def _read_checksums(file: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> dict[str, str]:
    digests: dict[str, str] = {}
    for line in _text(file, members, CHECKSUMS).splitlines():
        content, separator, name = line.partition("  ")
        if not separator or not re.fullmatch("[0-9a-f]{64}", content) or name in digests:
            raise UserError(f"{CHECKSUMS} has a line that is no checksum: {line[:80]!r}")
        digests[name] = content
    if unlisted := next((name for name in members if name not in digests and name != CHECKSUMS), ""):
        raise UserError(f"'{unlisted}' has no checksum")
    if absent := next((name for name in digests if name not in members), ""):
        raise UserError(f"'{absent[:80]}' has a checksum and is missing")
    return digests


def _text(file: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str) -> str:
    if members[name].file_size > MOST_TEXT:
        raise UserError(f"'{name}' is too large")
    return file.read(members[name]).decode(ENCODING)


def _check_digest(name: str, actual: str, expected: str) -> None:
    if actual != expected:
        raise UserError(f"'{name}' has changed since the archive was made")


def room_in(folder: Path) -> int:
    """Bytes that are free where a folder is, or will be."""
    while not folder.is_dir():
        folder = folder.parent
    return shutil.disk_usage(folder).free
