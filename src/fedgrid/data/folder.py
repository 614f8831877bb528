"""Your own pictures: a folder with one folder for every class.

`path` holds <class>/<picture>, or <domain>/<class>/<picture>, or folders train and test that do. Whether there are
domains shows in the depth at which the pictures lie. Without train and test, all pictures are in the training part.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from fedgrid.components import hp
from fedgrid.data.base import DataSet
from fedgrid.data.common.columns import positions
from fedgrid.data.common.images import PARTS, DatasetInfo, Images, RawDataset
from fedgrid.data.sources import pictures, sizes
from fedgrid.data.sources.digests import digests
from fedgrid.errors import UserError
from fedgrid.files import path_of

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")


class Picture(NamedTuple):
    """A file, and what the folders around it say of it."""

    part: str
    domain: str
    "Empty where there are no domains."
    label: str
    file: Path


class Folder(DataSet):
    title = "pictures"
    source = "the user's own pictures"
    mean = (0.5,)
    std = (0.5,)

    path: str = hp("")
    "The folder; in a study, relative to its file."
    channels: int = hp(3, choices=(1, 3))
    "What the pictures are turned into: 1, grey; 3, red, green and blue."

    def is_available(self, root: Path | None) -> bool:
        return bool(self.path) and self._top.is_dir()

    def info(self, root: Path | None) -> DatasetInfo:
        """The form, from the names of all pictures, their headers and the pixels of at most one of them.

        `copy` is a digest of their relative paths and of what they hold; those that have not changed since they were
        last looked at are not read again. Raises UserError as `load` does, save for what only their pixels show.
        """
        entries = self.pictures()
        height, width = (self.side, self.side) if self.side else self._decoded(entries[:1]).shape[1:3]
        images = {part: sum(p.part == part for p in entries) for part in PARTS}
        shape = self.prepared_shape((height, width, self.channels))
        contents = digests((p.file for p in entries), self._top)
        copy = hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:16]
        if not self.side:
            entry = f"data: {{name: {self.path}, side: 32}}"
            mend = f"resize all pictures, with {entry} in the study or --data-set side=32 with fedgrid run"
            sizes.check(((str(p.file), p.file) for p in entries), (height, width), copy, mend)
        return DatasetInfo(images, shape, _classes(entries), _domains(entries), copy)

    def load(self, root: Path | None, download: Path | None) -> RawDataset:
        """The pictures in the order of part, domain, class and name; `root` and `download` are not used.

        Raises UserError where the folder is missing or laid out otherwise, where a folder in it is empty, where the
        test part has a class that the training part lacks, and for damaged pictures or pictures of different sizes
        without a `side`.
        """
        return self.original(self._top, download=False)

    def original(self, folder: Path, download: bool) -> RawDataset:
        entries = self.pictures()
        lost: Counter[str] = Counter()
        pixels, classes, domains = self._decoded(entries, lost), _classes(entries), _domains(entries)
        train = sum(p.part == "train" for p in entries)
        parts = {}
        for part, rows in (("train", slice(0, train)), ("test", slice(train, None))):
            labels = positions([p.label for p in entries[rows]], classes)
            places = positions([p.domain for p in entries[rows]], domains) if domains else None
            parts[part] = Images(pixels[rows], labels, places)
        note = "; ".join(f"{number:,} of {len(entries):,} pictures: {what}" for what, number in lost.items())
        return RawDataset(parts, classes, domains, note)

    @property
    def _top(self) -> Path:
        return path_of(self.path, "path")

    def pictures(self) -> list[Picture]:
        """All pictures, in the order of the store; UserError where there is no folder, or none of such a form."""
        if not self.is_available(None):
            _complain(f"there is no folder '{self.path}'; set path to the folder of your pictures")
        entries = [p for part, folder in _parts(self._top).items() for p in _part(part, folder)]
        _check(entries)
        return entries

    def named_pictures(self) -> list[tuple[str, Path]]:
        return [(p.file.relative_to(self._top).as_posix(), p.file) for p in self.pictures()]

    def _decoded(self, entries: list[Picture], lost: Counter[str] | None = None) -> np.ndarray:
        return pictures.decoded([p.file for p in entries], self.side, self.channels, lost=lost)


def _parts(top: Path) -> dict[str, Path]:
    """The folder of every part; a *class* that is called train holds pictures and no folders."""
    parts = {part: top / part for part in PARTS if _folders(top / part)}
    others = [name for name in _folders(top) if name not in parts]
    if not parts:
        return {"train": top}
    if "train" not in parts:
        _complain(f"{top} has a folder test but no classes in a folder train")
    if others:
        _complain(f"{top / others[0]} lies beside the parts; only train and test are known, move it elsewhere")
    return parts


def _folders(top: Path) -> list[str]:
    return sorted(f.name for f in top.iterdir() if f.is_dir() and _visible(f.name)) if top.is_dir() else []


def _visible(name: str) -> bool:
    return not name.startswith(".")


def _part(part: str, top: Path) -> list[Picture]:
    entries = []
    for file in _files(top):
        *above, label = ("", *file.relative_to(top).parent.parts)
        if not 1 <= len(above) <= 2:
            _complain(f"{file} must lie in {top}/<class> or in {top}/<domain>/<class>")
        entries.append(Picture(part, above[-1], label, file))
    return sorted(entries)


def _files(top: Path) -> Iterator[Path]:
    visited: set[str] = set()
    for folder, inner, files in os.walk(top, followlinks=True, onerror=_unreadable):
        if (path := os.path.realpath(folder)) in visited:
            _complain(f"{folder} is a link to a folder that holds it or stands there already; remove it")
        visited.add(path)
        inner[:] = filter(_visible, inner)
        pictures = [name for name in files if _visible(name) and name.lower().endswith(SUFFIXES)]
        files = [name for name in pictures if os.path.isfile(os.path.join(folder, name))]
        if not inner and not files:
            _complain(f"{folder} holds no pictures ({', '.join(SUFFIXES)}); fill it or remove it")
        yield from (Path(folder, name) for name in files)


def _check(entries: list[Picture]) -> None:
    flat, deep = ([p for p in entries if bool(p.domain) == nested] for nested in (False, True))
    if flat and deep:
        _complain(f"{flat[0].file} lies in no domain but {deep[0].file} does; give all pictures a domain, or none")
    known = set(_classes(entries))
    unknown = [p for p in entries if p.label not in known]
    if unknown:
        _complain(f"the training part has no class '{unknown[0].label}', of which {unknown[0].file} is")


def _classes(entries: list[Picture]) -> tuple[str, ...]:
    return tuple(sorted({p.label for p in entries if p.part == "train"}))


def _domains(entries: list[Picture]) -> tuple[str, ...]:
    return tuple(sorted({p.domain for p in entries if p.domain}))


def _unreadable(error: OSError) -> NoReturn:
    _complain(f"{error.filename} cannot be read ({error.strerror})")


def _complain(what: str) -> NoReturn:
    raise UserError(f"data 'folder': {what}")
