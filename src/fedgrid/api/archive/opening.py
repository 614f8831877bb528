"""Puts an archive into a store, file by file; what is there stays."""

import errno
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.api.archive.checking import Archive, checked, room_in
from fedgrid.api.archive.layout import OUTSIDE, PROJECT, RESULTS
from fedgrid.api.archive.named_files import named_files
from fedgrid.api.archive.provenance import Provenance
from fedgrid.data.sources.digests import digest
from fedgrid.errors import Damaged, UserError
from fedgrid.files import check_identity, check_writable, read_json, read_table, replacing
from fedgrid.run.lock import StoreLock

WRITTEN, THERE, KEPT = "written", "there already", "kept, though another one is in the archive"
"What became of a file."
STORE = f"{RESULTS}/store/"
CELL = re.compile(r"/cells/.*/s\d+-([0-9a-f]{16})\.parquet$")
"The results of a cell, whose name has its key."


@dataclass
class Opened:
    """What became of an archive."""

    provenance: Provenance
    outcomes: Counter[str] = field(default_factory=Counter)
    "How many files were written, there, or kept."
    kept: list[Path] = field(default_factory=list)
    "Files of the project that differ from those of the archive."
    written: list[Path] = field(default_factory=list)
    "Files of the project that were written."
    outside: list[str] = field(default_factory=list)
    "Files that lay outside of the working folder, and stay in the archive."


def open_archive(file: Path, results: Path) -> Opened:
    """Puts the results of an archive into a folder of results, and the study's own files into the working folder.

    Nothing is written before every file has the digest that the archive says, and nothing that is there is replaced.
    Raises UserError, in one sentence, where the archive is refused or a run is using the store.
    """
    with checked(file, room_in(results)) as archive:
        check_writable(results / "store", "--results")
        lock = StoreLock(results / "store")
        lock.acquire()
        try:
            return _opened(archive, results)
        finally:
            lock.release()


def _opened(archive: Archive, results: Path) -> Opened:
    opened, now = Opened(archive.provenance), time.time()
    with archive.refusing():
        targets = dict(_targets(archive, results))
    with TemporaryDirectory(dir=results, prefix=".open.", suffix=".tmp") as folder:
        unpacked = {name: Path(folder) / name for name in targets}
        for name, temporary in unpacked.items():
            archive.copy(name, temporary)
            os.utime(temporary, (now, now))  # one time for all, or some would look older than what they are made from
        with archive.refusing():
            for name, temporary in unpacked.items():
                _check_seal(name, temporary)
            _check_named(targets, Path(folder) / PROJECT, archive.provenance.study)
        for name, target in targets.items():
            outcome = _place(unpacked[name], target, archive.digests[name])
            opened.outcomes[outcome] += 1
            if name.startswith(f"{PROJECT}/") and outcome != THERE:
                (opened.written if outcome == WRITTEN else opened.kept).append(target)
    opened.outside = [name for name in archive.members if name.startswith(f"{OUTSIDE}/")]
    return opened


def _targets(archive: Archive, results: Path) -> Iterator[tuple[str, Path]]:
    """Where each member goes; the store comes first, for what is there counts."""
    for name in sorted(archive.members, key=lambda name: (not name.startswith(STORE), name)):
        top, _, rest = name.partition("/")
        if top == PROJECT and Path(rest).resolve().is_relative_to(results.resolve()):
            raise UserError(f"'{name}' would lie among the results")
        if rest and top != OUTSIDE:
            yield name, (results if top == RESULTS else Path()) / rest


def _check_named(names: Iterable[str], project: Path, study: str) -> None:
    """Raises UserError for a file of the unpacked project that its study does not name."""
    named = named_files(project, study)
    for name in (name.removeprefix(f"{PROJECT}/") for name in names if name.startswith(f"{PROJECT}/")):
        if name not in named:
            raise UserError(f"'{name}' is not a file that the study names")


def _check_seal(name: str, file: Path) -> None:
    """Raises UserError where a file of the store is not what its name says, or not as fedgrid wrote it."""
    if not name.startswith(STORE):
        return
    try:
        if name.endswith(".parquet"):
            read_table(file)
        elif name.endswith(".json") and {"originals", "choices"} & {*name.split("/")}:
            read_json(file)
        if cell := CELL.search(name):
            check_identity(file, key=cell[1])
    except Damaged as error:
        raise UserError(f"'{name}' is damaged ({error.why})") from error


def _place(temporary: Path, target: Path, known: str) -> str:
    if target.exists() or target.is_symlink():
        return THERE if target.is_file() and digest(target) == known else KEPT
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(temporary, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with replacing(target) as beside:  # the results are on another file system than the project
            shutil.copy2(temporary, beside)
    return WRITTEN
