"""Any set of the Hugging Face hub, or a folder in a format of the library `datasets`, by the names of its columns.

`hub` names a set of the hub (`owner/name`), `path` a folder: what `save_to_disk` wrote, Parquet, Arrow, CSV or JSON
files, or pictures in folders of their classes or beside a file of metadata. One of the settings `image`, `text`,
`signal` and `columns` says where the samples are, `target` where their classes are.

All rows are read once to find and check what they have in common; a digest of what was read stands in the key.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np

from fedgrid.components import hp
from fedgrid.data.base import DataSet
from fedgrid.data.common import captions
from fedgrid.data.common.images import COLUMNS, IMAGE, PARTS, SIGNAL, TABULAR, TEXT, DatasetInfo, Images, RawDataset
from fedgrid.data.sources import readings, samples, splits, survey
from fedgrid.data.sources.survey import Columns, Survey
from fedgrid.errors import UserError
from fedgrid.files import cache, path_of, read_json, write_json

CODE = (captions, readings, samples, splits, survey)
"Modules that decide what a pass over all rows finds."
ALL = "*"
LARGE = 2**28
"Bytes of samples above which they are kept in a file and not in memory while they are read."


class HuggingFace(DataSet):
    title = "Hugging Face"
    source = "a data set of the Hugging Face hub, or the user's own in a format of its library"
    library = "datasets"
    extra = "huggingface"
    mean = (0.5,)
    std = (0.5,)

    hub: str = hp("")
    "A set of the Hugging Face hub, as `ylecun/mnist`."
    path: str = hp("")
    "A folder in place of it; in a study, relative to its file."
    subset: str = hp("")
    "The set's subset (configuration), where it has several."
    revision: str = hp("")
    "Commit, branch or tag of the set of the hub; the newest where none is given."
    train: str = hp("train")
    "The split that is the training part."
    test: str = hp("test")
    "The split that is the test part; without one of the usual name, all rows are in the training part."
    image: str = hp("")
    "The column of pictures."
    text: str = hp("")
    "The column of texts, or of lists of token numbers."
    signal: str = hp("")
    "The column of each channel, separated by commas, which hold lists of readings; or one column of lists of channels."
    columns: str = hp("")
    "Columns of a table, separated by commas, which hold numbers or names; `*`: all that mean nothing else."
    target: str = hp("label")
    "The column of classes: names, or whole numbers. (A study's `label` is what tables call the data set.)"
    domain: str = hp("")
    "The column of domains, where the samples are of several."
    keep: str = hp("")
    "Further columns that the samples keep, separated by commas, for partitions by writer, role or hospital."
    channels: int = hp(3, choices=(1, 3))
    "What pictures are turned into: 1, grey; 3, red, green and blue."
    unit: str = hp("words", choices=("words", "characters", "tokens"))
    "What texts are taken apart into; tokens: the column holds numbers of tokens."
    length: int = hp(64, low=1, high=65_536)
    "Words that are kept of a text, the first ones; a shorter one is filled up."
    vocabulary: int | None = hp(None, low=1, high=65_534)
    "Words that are known, the most frequent of those that occur twice; of token numbers, how many there are."
    padding: int | None = hp(None, low=0, high=65_533)
    "Of token numbers, the one that fills texts up; none where all of a list are words."

    @property
    def kind(self) -> str:
        named = {IMAGE: self.image, TEXT: self.text, SIGNAL: self.signal, TABULAR: self.columns}
        given = [kind for kind, column in named.items() if column]
        if len(given) != 1:
            raise UserError(
                f"data 'huggingface': {' and '.join(given) or 'nothing'} says where the samples are; set one of image, "
                "text, signal and columns to the name of their column"
            )
        return given[0]

    def is_available(self, root: Path | None) -> bool:
        return bool(self.hub) != bool(self.path) and (bool(self.hub) or self._folder.is_dir())

    def info(self, root: Path | None) -> DatasetInfo:
        """What a pass over all rows finds, which is remembered until the files or the settings change.

        `copy` is a digest of what was read. A set of the hub is loaded for it, into the cache of `datasets`. Raises
        UserError as `load` does.
        """
        about, kind = self._survey(), self.kind
        domains = tuple(about.names[self.domain]) if self.domain else ()
        vocabulary = len(about.found.vocabulary)
        shape = about.found.shape if kind != IMAGE else self.prepared_shape(about.found.shape)
        kept = {name: len(about.names[name]) for name in self._columns.kept}
        return DatasetInfo(
            about.counts, shape, about.classes, domains, about.digest, kind=kind, vocabulary=vocabulary, kept=kept
        )

    def load(self, root: Path | None, download: Path | None) -> RawDataset:
        """The samples in the order of the rows; `root` is not used, and a download goes to the cache of `datasets`.

        Raises UserError where the library, the folder, a split or a column is missing, where a row has no sample or no
        label, and for pictures or signals of different sizes.
        """
        return self.original(self._folder, download=download is not None)

    def original(self, folder: Path, download: bool) -> RawDataset:
        about, parts = self._survey(), self._rows(download)
        reader, commit = self._reader(parts), parts["train"].commit
        images = {part: self._part(parts.get(part), reader, about) for part in PARTS}
        found, domains = about.found, tuple(about.names[self.domain]) if self.domain else ()
        constants = (found.mean, found.std) if found.mean else ((0.0,), (1.0,)) if self.kind == TEXT else None
        kept = {name: tuple(about.names[name]) for name in self._columns.kept}
        note, words = self._note(reader, commit), found.vocabulary
        return RawDataset(images, about.classes, domains, note, vocabulary=words, constants=constants, kept=kept)

    @property
    def _folder(self) -> Path:
        return path_of(self.path, "path")

    @property
    def _columns(self) -> Columns:
        return Columns(self.target, self.domain, _listed(self.keep))

    def _survey(self) -> Survey:
        """What a pass over all rows finds; that of files that have not changed is in the user's cache."""
        self._check()
        known = self._content
        memory = cache("huggingface") / f"{_digest([self._settings, _of_code(), known])}.json"
        if known:
            with suppress(UserError):
                return Survey.of_plain(read_json(memory))
        parts = self._rows(download=True)
        about = survey.survey(parts, self._reader(parts), self._columns)
        if known:
            with suppress(UserError):  # it only saves time
                write_json(memory, about.plain())
        return about

    @property
    def _settings(self) -> dict[str, object]:
        """Those that decide what is read."""
        return {name: value for name, value in asdict(self).items() if name not in ("path", "colour")}

    @property
    def _content(self) -> str:
        """What the files of the folder, or a commit of the hub, hold, as a digest; empty where only loading tells."""
        if self.path:
            return _digest(splits.digests_of_folder(self._folder))
        return self.revision if splits.COMMIT.fullmatch(self.revision) else ""

    def _check(self) -> None:
        """Raises UserError where settings do not go together, or the folder or the library is missing."""
        if bool(self.hub) == bool(self.path):
            both = "both name the data; keep one" if self.hub else "name a set of the hub, or the path of a folder"
            raise UserError(f"data 'huggingface': hub, path: {both}")
        if self.path and not self._folder.is_dir():
            raise UserError(f"data 'huggingface': path: there is no folder '{self.path}'")
        self._check_columns()
        if self.kind != IMAGE and (self.side or self.colour):
            raise UserError(f"data 'huggingface': side and colour are settings of images, not of '{self.kind}'")
        if missing := self.missing_library(None):
            raise UserError(f"data 'huggingface' needs {missing}: pip install 'fedgrid[{self.extra}]'")

    def _check_columns(self) -> None:
        """Raises UserError where names of columns or splits do not go together."""
        samples_in = _listed(self.image or self.text or self.signal or self.columns)
        if self.kind in (IMAGE, TEXT) and len(samples_in) > 1:
            raise UserError(f"data 'huggingface': {self.kind}: name one column, not {', '.join(samples_in)}")
        if self.target in samples_in:
            raise UserError(
                f"data 'huggingface': target: '{self.target}' is to be predicted, and cannot be a sample too"
            )
        if self.train == self.test:
            raise UserError(f"data 'huggingface': test: '{self.test}' is the training part; name another split")
        for column in self._columns.kept:
            if column in COLUMNS:
                mend = "set domain, and by: domain in the partition" if column == "domain" else "rename it in the data"
                raise UserError(f"data 'huggingface': keep: a column '{column}' has another meaning here; {mend}")

    def _rows(self, download: bool) -> dict[str, splits.Rows]:
        names = {"train": self.train, "test": self.test}
        if self.path:
            parts = splits.in_folder(self._folder, names, cache("huggingface") / self._content[:32])
        else:
            parts = splits.of_hub(self.hub, self.subset, self.revision, names, download)
        settings = {"target": (self.target,), "domain": _listed(self.domain), "keep": self._columns.kept}
        settings |= {self.kind if self.kind != TABULAR else "columns": self._sample_columns(parts["train"])}
        for rows in parts.values():
            for setting, columns in settings.items():
                for column in columns:
                    rows.check(column, setting)
        return parts

    def _sample_columns(self, rows: splits.Rows) -> tuple[str, ...]:
        if self.columns.strip() == ALL:
            others = {self.target, *self._columns.named}
            return tuple(column for column in rows.columns if column not in others)
        return _listed(self.image or self.text or self.signal or self.columns)

    def _reader(self, parts: Mapping[str, splits.Rows]) -> samples.Reader:
        columns = self._sample_columns(parts["train"])
        if self.kind == IMAGE:
            if not parts["train"].is_picture(self.image):
                holds = parts["train"].split.features[self.image]
                raise UserError(
                    f"image: column '{self.image}' holds no pictures but {holds}; is it `columns` or `text`?"
                )
            return samples.Pictures(self.image, self.side, self.channels)
        if self.kind == TEXT:
            return samples.Texts(self.text, self.unit, self.length, self.vocabulary, self.padding)
        return readings.Signals(columns) if self.kind == SIGNAL else readings.Numbers(columns)

    def _part(self, rows: splits.Rows | None, reader: samples.Reader, about: Survey) -> Images:
        count, columns = len(rows) if rows else 0, self._columns
        pixels = _array((count, *about.found.shape), reader.dtype)
        known = {self.target: about.classes} | {name: about.names[name] for name in columns.named}
        position = {name: {value: place for place, value in enumerate(values)} for name, values in known.items()}
        names = {name: np.empty(count, np.int64) for name in known}
        for first, table in rows.batches(columns.all_with(reader)) if rows else ():
            some = slice(first, first + len(table))
            pixels[some] = reader.arrays(table, about.found, first)
            for name, places in names.items():
                values = survey.names_in(table[name], first, name)
                places[some] = [position[name][str(value)] for value in values]
        kept = {name: names[name] for name in columns.kept}
        return Images(pixels, names[self.target], names[self.domain] if self.domain else None, kept=kept)

    def _note(self, reader: samples.Reader, commit: str) -> str:
        """What the data set of the hub is, and what pictures or texts lost."""
        origin = (
            f"{self.hub} of the Hugging Face hub, revision {commit or self.revision or 'newest'}" if self.hub else ""
        )
        lost = [f"{number:,} samples: {what}" for what, number in sorted(reader.lost.items()) if number]
        return "; ".join(filter(None, [origin, *lost]))


def _digest(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _of_code() -> list[str]:
    """What the code and the library are that look at rows."""
    sources = [Path(str(module.__file__)).read_bytes() for module in CODE]
    return [version("datasets"), *(hashlib.sha256(source).hexdigest() for source in sources)]


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _array(shape: tuple[int, ...], kind: type[np.generic]) -> np.ndarray:
    """An array to be filled; a large one is a file, of which the system keeps in memory what fits."""
    if np.prod(shape, dtype=np.int64) * np.dtype(kind).itemsize < LARGE:
        return np.empty(shape, kind)
    folder = cache("huggingface")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # a disk that is too small is said here, and does not kill the job later
            os.posix_fallocate(file.fileno(), 0, int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize)
        return np.memmap(file, kind, "w+", shape=shape)
