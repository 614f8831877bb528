"""What cells are merged from: an archive of `fedgrid bundle`, or a store that lies in a folder.

Nothing in a source is trusted: names are matched, links are refused, and every file is copied before it is checked, so
that what was checked is what is put into place.
"""

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedgrid.api.archive.checking import checked
from fedgrid.api.archive.layout import RESULTS, digest
from fedgrid.api.archive.names import allowed
from fedgrid.errors import UserError
from fedgrid.grid.plan.cell_origin import plain_name

CELL = re.compile(r"cells/(\w+)/([\w.-]+)/([^/]+)/s(\d+)-([0-9a-f]{16})\.parquet")
"The results of a cell below a store: method, data set, heterogeneity, seed, key."
PARTITION = re.compile(r"partitions/[\w.-]+/[^/]+-[0-9a-f]{16}/seed=\d+\.parquet")
ORIGINAL = re.compile(r"originals/[^/]+-[0-9a-f]{16}\.json")
"Notes which images a store first had."
MERGED_FOLDERS = ("cells", "partitions", "originals")
"Folders of a store from which something is merged."
STORE = f"{RESULTS}/store/"
"Where the store is in an archive."


@dataclass(frozen=True)
class Source:
    """A source, and the files that it has."""

    path: Path
    name: str
    "As captions and origins name it."
    archive: str
    "SHA-256 of the archive; empty for a store."
    names: Mapping[str, None]
    "Of its files below the store, sorted; of a store there may be many thousands."
    copy: Callable[[str, Path], None]
    "Copies a file of a name to a path; UserError where it is not a plain file, or has changed."

    def matching(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """The names that fit a pattern as a whole."""
        return filter(None, map(pattern.fullmatch, self.names))


@contextmanager
def open_source(path: Path, room: int) -> Iterator[Source]:
    """The source at a path; an archive may have so many bytes unpacked as there is `room` for.

    Raises UserError, in one sentence, for anything else, and for an archive or a store that is unsafe to read.
    """
    if path.is_dir():
        yield _store_source(path)
        return
    with checked(path, room) as archive:
        with open(path, "rb") as content:
            of_archive = digest(content)
        names = (name.removeprefix(STORE) for name in archive.members if name.startswith(STORE))

        def copy(name: str, target: Path) -> None:
            archive.copy(f"{STORE}{name}", target)

        yield Source(path, plain_name(path.name), of_archive, dict.fromkeys(sorted(names)), copy)


def store_in(folder: Path) -> Path:
    """The store that a folder of results has or, where it is one itself, the folder."""
    return folder if folder.name == "store" or (folder / "cells").is_dir() else folder / "store"


def _store_source(path: Path) -> Source:
    store = store_in(path)
    if not (store / "cells").is_dir():
        raise UserError(f"{path}: no archive of fedgrid bundle, and no folder of results with a store")
    store = store.resolve()
    results = store.parent if store.name == "store" else store
    named = results.parent if results.name == "results" else results
    names = dict.fromkeys(sorted(_names_in(store, path)))

    def copy(name: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        # not through a link that came there meanwhile; and opening a pipe must not wait for a writer
        with open(os.open(store / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise UserError(f"{path}: refused, '{name}' is not a regular file")
            with open(target, "wb") as file:
                shutil.copyfileobj(source, file)

    return Source(path, plain_name(named.name), "", names, copy)


def _names_in(store: Path, path: Path) -> Iterator[str]:
    """The files of a store that may be merged; hidden ones are not, such as one that is being written."""
    for top in MERGED_FOLDERS:
        if (store / top).is_symlink():
            raise UserError(f"{path}: refused, '{top}' is a link")
        for folder, folders, files in os.walk(store / top):
            for entry in (*folders, *files):
                name = (Path(folder) / entry).relative_to(store).as_posix()
                if (store / name).is_symlink():
                    raise UserError(f"{path}: refused, '{name}' is a link")
                if entry in files and allowed(f"{STORE}{name}"):
                    yield name
