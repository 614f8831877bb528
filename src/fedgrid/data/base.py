"""What every data set is: labelled images, split into the parts that its authors published, in domains if it has any.

A data set says where its original files come from (`original`); local Parquet copies, preprocessing, checks and the
form of the files that everything else reads are the same for all and written here.
"""

import abc
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedgrid.components import Component, hp
from fedgrid.data.common.images import COLUMNS, PARTS, DatasetInfo, Images, Published, RawDataset
from fedgrid.data.common.store import checksum_of, write
from fedgrid.data.sources import parquet, pictures
from fedgrid.errors import UserError, say


class DataSet(Component, abc.ABC):
    """A data set; a subclass states the facts of the original and says where its files come from."""

    side: int | None = hp(None, low=1, high=1024)
    "Height and width to which images are resized (antialiased bilinear); as published where none is given."
    colour: bool = hp(False)
    "Whether grey images get three equal channels."

    checksum: ClassVar[str] = ""
    "SHA-256 of the original's pixels and labels (`checksum_of`), where it is known."
    scale: ClassVar[float] = 255.0
    "The largest pixel value; inputs are (pixel / scale - mean) / std."
    mean: ClassVar[tuple[float, ...]] = (0.0,)
    std: ClassVar[tuple[float, ...]] = (1.0,)
    "Normalisation constants, one a channel or one for all, after division by `scale`."
    library: ClassVar[str] = ""
    "The library that reads and downloads the original files, where it is not one that fedgrid requires."
    renamed: ClassVar = {"images": "image_counts"}
    wanted: ClassVar[str] = ""
    "Which original files to put where: '<files> into <data_root>/<folder>'."

    # a subclass states these facts as it does the others, or works them out from its settings

    @property
    def image_counts(self) -> Mapping[str, int]:
        """Number of images of every part of the original."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width, channels of the original."""
        raise NotImplementedError

    @property
    def classes(self) -> tuple[str, ...]:
        """Names in the order of the labels."""
        raise NotImplementedError

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of the domains, where there are several."""
        return ()

    @property
    def modalities(self) -> tuple[str, ...]:
        """Names of the modalities, where there are several: every image of the original is then a sample of each."""
        return ()

    @property
    def kept(self) -> Mapping[str, int]:
        """By column that is kept with the images (a writer, a hospital), the number of its different values."""
        return {}

    @property
    def by_hand(self) -> str:
        """What has to be put where if neither a Parquet copy nor a download has it: '<files> into <folder>'."""
        return ""

    @classmethod
    def facts(cls) -> dict[str, Any]:
        """Of the original, where there is one: what `fedgrid datasets` shows."""
        names = ("image_counts", "shape", "classes", "domains")
        counts, shape, classes, domains = (getattr(cls, name) for name in names)
        if any(isinstance(fact, property) for fact in (counts, shape, classes)):
            return {}  # they depend on settings
        parts = " + ".join(f"{counts[part]:,}" for part in PARTS)
        domains = [] if isinstance(domains, property) else list(domains)
        return {"images": parts, "shape": list(shape), "classes": len(classes), "domains": domains}

    def named_pictures(self) -> list[tuple[str, Path]]:
        """The name below its folder and the path of each picture, in the order of the images; none of other data."""
        return []

    @property
    def name(self) -> str:
        """The name of the data set: that of its file."""
        return type(self).__module__.rpartition(".")[2]

    @property
    def published(self) -> Published:
        """The facts of the original with which copies are compared."""
        return Published(self.image_counts, self.classes, self.domains, self.checksum)

    @abc.abstractmethod
    def original(self, folder: Path, download: bool) -> RawDataset | None:
        """The data set from its authors' own files under `folder`, downloaded to there first if `download`.

        None where they are not there and not to be downloaded. Raises UserError for damaged files and for a download
        that fails.
        """

    def is_available(self, root: Path | None) -> bool:
        """Whether the images are available under `root`; does not read them all."""
        return root is not None and (self._copied(root) or self.has_original(root))

    def missing_library(self, root: Path | None) -> str:
        """The `library`, where the images have to be read or downloaded by it and it is not installed; else empty."""
        copied = root is not None and self._copied(root)
        return "" if not self.library or copied or importlib.util.find_spec(self.library) else self.library

    def has_original(self, root: Path) -> bool:
        """Whether `root` has the authors' own files."""
        return False

    def info(self, root: Path | None) -> DatasetInfo:
        """What `load` would give; a local Parquet copy may hold less than the original."""
        samples = {part: self._samples(part) for part in self.image_counts}
        more: dict[str, Any] = {"modalities": self.modalities, "kept": self.kept}
        info = DatasetInfo(samples, self.shape, self.classes, self.domains, **more)
        if root and self._copied(root):
            info = parquet.info(root / self.name, self.published)
        return replace(info, shape=self.prepared_shape(info.shape))

    def load(self, root: Path | None, download: Path | None) -> RawDataset:
        """The images as the first source that has them gives them: Parquet, or the original files, or a download.

        Local files are looked for under `root`; a download, where `download` is given, is kept there. Raises UserError
        with what to put where.
        """
        if root and self._copied(root):
            return parquet.read(root / self.name, self.published)
        for folder, fetch in ((root, False), (download, True)):
            raw = self.original(folder, fetch) if folder else None
            if raw is not None:
                self._check_whole(raw, folder)
                return raw
        copies = f"train.parquet and test.parquet into <data_root>/{self.name}"
        also = f", or {self.wanted}" if self.wanted else ""
        mend = self.by_hand or f"{copies}{also}, or allow the download (download: true)"
        raise UserError(f"data '{self.name}' is not available: put {mend}")

    def _copied(self, root: Path) -> bool:
        """Whether `root` has a usable Parquet copy."""
        return not self.by_hand and parquet.is_present(root / self.name)

    def _samples(self, part: str) -> int:
        """How many samples a part of the original has."""
        return self.image_counts[part] * (len(self.modalities) or 1)

    def _check_whole(self, raw: RawDataset, folder: Path | None) -> None:
        """Raises UserError where the authors' files hold another number of images than the authors published."""
        for part in PARTS:
            count, published = len(raw.parts[part].labels), self._samples(part)
            if count != published:
                wanted = f"; put {self.wanted} again" if self.wanted else ""
                raise UserError(
                    f"data '{self.name}': the files under {folder} hold {count:,} of {published:,} {part} images"
                    f"{wanted}"
                )

    def prepared_shape(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """The shape of images of the given (height, width, channels) once they are resized and coloured."""
        height, width, channels = shape
        if self.side:
            height = width = self.side
        return height, width, 3 if self.colour else channels


def convert(
    data: DataSet,
    root: Path | None,
    download: Path | None,
    outputs: Mapping[str, Path],
    key: str = "",
    check: Callable[[str], None] = lambda checksum: None,
) -> None:
    """Writes one Parquet file for every part, all or none: pixels, label, domain, caption; facts and `key` as metadata.

    A column that is kept has its own name. Where there are modalities, each row says its own, and has pixels or tokens.
    `check` is called with the checksum before anything is written, and may raise.
    """
    raw = data.load(root, download)
    _check(data, raw)
    if raw.note:
        say(f"data '{data.name}': {raw.note}", sys.stderr)
    parts = {part: _prepared(data, raw.parts[part]) for part in PARTS}
    facts: dict[str, Any] = {
        "key": key,
        "name": data.name,
        "classes": list(raw.classes),
        "domains": list(raw.domains),
        "images": {part: len(parts[part].labels) for part in PARTS},
        "shape": list(parts["train"].pixels.shape[1:]),
        "dtype": "uint8",
        "scale": data.scale,
        "mean": list(data.mean),
        "std": list(data.std),
        "source": data.source,
        "note": raw.note,
        "checksum": checksum_of(parts),
    }
    if (tokens := parts["train"].tokens) is not None:
        facts["modalities"], facts["vocabulary"] = list(raw.modalities), list(raw.vocabulary)
        facts["captions"] = list(tokens.shape[1:])
    check(facts["checksum"])
    write(outputs, parts, facts, raw.kept)


def _prepared(data: DataSet, images: Images) -> Images:
    pixels = pictures.resized(images.pixels, data.side) if data.side else images.pixels
    if data.colour and pixels.shape[3] == 1:
        pixels = np.repeat(pixels, 3, axis=3)
    return replace(images, pixels=pixels)


def _check(data: DataSet, raw: RawDataset) -> None:
    """Raises UserError for numbers out of range, and for a copy of the original that is not the original."""
    for part in PARTS:
        images, where = raw.parts[part], f"data '{data.name}': the {part} part"
        samples = len(images.pixels) + (0 if images.tokens is None else len(images.tokens))
        if samples != len(images.labels):
            raise UserError(f"{where} has {samples} images and {len(images.labels)} labels")
        parquet.check_range(f"{where} has a label", images.labels, len(raw.classes))
        if images.domains is not None:
            parquet.check_range(f"{where} has a domain", images.domains, len(raw.domains))
        _check_kept(where, images, raw)
    if data.checksum and not raw.note and checksum_of(raw.parts) != data.checksum:
        raise UserError(f"data '{data.name}': the images differ from the original data set")


def _check_kept(where: str, images: Images, raw: RawDataset) -> None:
    """Raises UserError where the columns that are kept are not those of the set, one value for each sample."""
    if {*images.kept} != {*raw.kept}:
        raise UserError(f"{where} keeps the columns {sorted(images.kept)}, the data set {sorted(raw.kept)}")
    for column, positions in images.kept.items():
        if column in COLUMNS:
            raise UserError(f"{where} keeps a column '{column}', a name with another meaning; rename it")
        if len(positions) != len(images.labels):
            raise UserError(f"{where} has {len(images.labels)} labels and {len(positions)} values of '{column}'")
        parquet.check_range(f"{where} has a value of '{column}'", positions, len(raw.kept[column]))
