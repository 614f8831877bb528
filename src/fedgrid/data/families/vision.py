"""Data sets that torchvision knows: its own folder layout, or its verified download."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from fedgrid.data.base import DataSet
from fedgrid.data.common.images import PARTS, Images, RawDataset
from fedgrid.data.sources import download as downloads
from fedgrid.data.sources import torchvision_shim
from fedgrid.errors import UserError

ATTEMPTS = 3
"Downloads are tried so often."
WAIT = 2.0
"Seconds before the second attempt; twice as long before the third."


class VisionDataSet(DataSet):
    """A data set of `torchvision.datasets`: a subclass names it, and states the facts of the original."""

    library = "torchvision"
    vision: ClassVar[str]
    "Name of torchvision's class."
    files: ClassVar[tuple[str, ...]]
    "The files that torchvision reads, relative to the data root."
    options: ClassVar[Mapping[str, Any]] = {}
    "Further arguments of torchvision's class."
    by_split: ClassVar[bool] = False
    "Whether torchvision's class asks for the part by its name, `split`, not by the truth of `train`."
    axes: ClassVar[str] = "nhw"
    "Order of the axes of torchvision's array: n images, height, width, channels."

    def original(self, folder: Path, download: bool) -> RawDataset | None:
        if not download and not self.has_original(folder):
            return None
        return RawDataset(_read(self, folder, download), self.classes)

    def has_original(self, root: Path) -> bool:
        return all((root / file).is_file() for file in self.files)


def _read(data: VisionDataSet, folder: Path, download: bool) -> dict[str, Images]:
    """Both parts; torchvision checks every archive that it downloads against its MD5 sum."""
    cls = getattr(_datasets(), data.vision)
    if not download:
        return _parts(data, cls, folder, download)
    with downloads.alone(folder):
        for attempt in range(1, ATTEMPTS):
            try:
                return _parts(data, cls, folder, download)
            except UserError:
                time.sleep(WAIT * attempt)
        return _parts(data, cls, folder, download)


def _parts(data: VisionDataSet, cls: type, folder: Path, download: bool) -> dict[str, Images]:
    def images(part: str) -> Images:
        chosen = {"split": part} if data.by_split else {"train": part == "train"}
        return _images(cls(str(folder), download=download, **chosen, **data.options), data.axes)

    try:
        return {part: images(part) for part in PARTS}
    except (RuntimeError, OSError, EOFError, ValueError) as error:
        why = " ".join(str(error).split())
        files = ", ".join(data.files)
        problem = "could not be downloaded" if download else "cannot be read"
        raise UserError(f"data '{data.name}' {problem} ({why}); put {files} into {folder} yourself") from error


def _images(dataset: Any, axes: str) -> Images:
    pixels = np.asarray(dataset.data, dtype=np.uint8)
    pixels = pixels.transpose([axes.index(axis) for axis in "nhwc" if axis in axes])
    labels = dataset.targets if hasattr(dataset, "targets") else dataset.labels
    return Images(pixels.reshape(*pixels.shape[:3], -1), np.asarray(labels, dtype=np.int64))


def _datasets() -> ModuleType:
    try:
        return torchvision_shim.load("torchvision.datasets")
    except ModuleNotFoundError as error:
        raise UserError("this data set needs torchvision: pip install 'fedgrid[download]'") from error
