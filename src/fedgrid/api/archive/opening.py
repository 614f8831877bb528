"""Puts an archive into a store, file by file; what is there stays."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.api.archive.checking import Archive, checked, refusing, room_in
from fedgrid.api.archive.layout import OUTSIDE, PROJECT, RESULTS
from fedgrid.api.archive.named_files import named_files
from fedgrid.api.archive.placing import place
from fedgrid.api.archive.provenance import Provenance
from fedgrid.api.archive.seals import check_seal
from fedgrid.data.sources.digests import digest
from fedgrid.errors import UserError
from fedgrid.files import check_writable
from fedgrid.run.lock import StoreLock

WRITTEN, THERE, KEPT = "written", "there already", "kept, though another one is in the archive"
"What became of a file."
STORE = f"{RESULTS}/store/"


@dataclass(frozen=True)
class Opened:
    """What became of an archive."""

    provenance: Provenance
    outcomes: Mapping[str, str]
    "Of each file by its name in the archive: written, there already, or kept."
    project: Mapping[str, Path]
    "Where the files of the project lie, by their names in the archive."
    outside: list[str]
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
    now = time.time()
    with refusing(archive.path):
        targets = dict(_targets(archive, results))
    project = {name: target for name, target in targets.items() if name.startswith(f"{PROJECT}/")}
    with TemporaryDirectory(dir=results, prefix=".open.", suffix=".tmp") as folder:
        unpacked = {name: Path(folder) / name for name in targets}
        for name, temporary in unpacked.items():
            archive.copy(name, temporary)
            os.utime(temporary, (now, now))  # one time for all, or some would look older than what they are made from
        with refusing(archive.path):
            for name, temporary in unpacked.items():
                if name.startswith(STORE):
                    check_seal(name, temporary)
            named = named_files(Path(folder) / PROJECT, archive.provenance.study)
            for name in project:
                if name.removeprefix(f"{PROJECT}/") not in named:
                    raise UserError(f"'{name.removeprefix(f'{PROJECT}/')}' is not a file that the study names")
        outcomes = {name: _place(unpacked[name], file, archive.digests[name]) for name, file in targets.items()}
    outside = [name for name in archive.members if name.startswith(f"{OUTSIDE}/")]
    return Opened(archive.provenance, outcomes, project, outside)


def _targets(archive: Archive, results: Path) -> Iterator[tuple[str, Path]]:
    """Where each member goes; the store comes first, for what is there counts."""
    for name in sorted(archive.members, key=lambda name: (not name.startswith(STORE), name)):
        top, _, rest = name.partition("/")
        if top == PROJECT and Path(rest).resolve().is_relative_to(results.resolve()):
            raise UserError(f"'{name}' would lie among the results")
        if rest and top != OUTSIDE:
            yield name, (results if top == RESULTS else Path()) / rest


def _place(temporary: Path, target: Path, known: str) -> str:
    if target.exists() or target.is_symlink():
        return THERE if target.is_file() and digest(target) == known else KEPT
    place(temporary, target)
    return WRITTEN
