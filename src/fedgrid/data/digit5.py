"""Digits-Five: the digits of MNIST, SVHN, USPS, Synthetic Digits and MNIST-M as five domains, all 32×32 RGB.

It is composed of the five data sets as each is at hand or downloaded; there is no copy of all of it. A study may use
those domains that it can have.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedgrid.components import hp
from fedgrid.data.base import DataSet
from fedgrid.data.common.images import PARTS, DatasetInfo, Images, RawDataset
from fedgrid.data.mnist import Mnist
from fedgrid.data.mnistm import MnistM
from fedgrid.data.sources import pictures
from fedgrid.data.svhn import Svhn
from fedgrid.data.synth import SyntheticDigits
from fedgrid.data.usps import Usps
from fedgrid.errors import UserError, nearest

SETS: Mapping[str, type[DataSet]] = {
    "mnist": Mnist,
    "svhn": Svhn,
    "usps": Usps,
    "synth": SyntheticDigits,
    "mnistm": MnistM,
}
SIDE = 32


class DigitFive(DataSet):
    title = "Digits-Five"
    source = "Peng, Bai, Xia, Huang, Saenko & Wang, Moment matching for multi-source domain adaptation, 2019"
    shape = (SIDE, SIDE, 3)
    classes = tuple("0123456789")
    mean = (0.5,)
    std = (0.5,)

    domains_used: str = hp("mnist,svhn,usps,synth,mnistm")
    "Names of the domains, in this order, separated by commas."

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains in use; UserError for an unknown or duplicate name."""
        names = tuple(name.strip() for name in self.domains_used.split(","))
        for name in names:
            if name not in SETS:
                raise UserError(f"data 'digit5': unknown domain '{name}' in domains_used; {nearest(name, SETS)}")
        if len(set(names)) < len(names):
            raise UserError(f"data 'digit5': duplicate domain in domains_used: {self.domains_used}")
        return names

    @property
    def image_counts(self) -> Mapping[str, int]:
        return {part: sum(SETS[name]().image_counts[part] for name in self.domains) for part in PARTS}

    def is_available(self, root: Path | None) -> bool:
        return all(SETS[name]().is_available(root) for name in self.domains)

    def info(self, root: Path | None) -> DatasetInfo:
        infos = {name: SETS[name]().info(root) for name in self.domains}
        images = {part: sum(info.images[part] for info in infos.values()) for part in PARTS}
        copies = [f"{name}:{info.copy}" for name, info in infos.items() if info.copy]
        copy = hashlib.sha256(",".join(copies).encode()).hexdigest()[:16] if copies else ""
        return DatasetInfo(images, self.prepared_shape(self.shape), self.classes, self.domains, copy)

    def load(self, root: Path | None, download: Path | None) -> RawDataset:
        """The domains in use, one after the other; UserError naming those that are unavailable."""
        missing = [] if download else [name for name in self.domains if not SETS[name]().is_available(root)]
        sets, reason = {}, "not available: put them into data_root or allow the download, download: true"
        for name in () if missing else self.domains:
            try:
                sets[name] = SETS[name]().load(root, download)
            except UserError as error:
                missing.append(name)
                reason = str(error)
        if missing:
            at_hand = ",".join(name for name in self.domains if name not in missing) or "none"
            raise UserError(
                f"data 'digit5' lacks the domains {', '.join(missing)} ({reason}); domains_used can leave them out, "
                f"the others are {at_hand}"
            )
        notes = [f"{name}: {raw.note}" for name, raw in sets.items() if raw.note]
        parts = {part: _joined([raw.parts[part] for raw in sets.values()]) for part in PARTS}
        return RawDataset(parts, self.classes, self.domains, " ".join(notes))

    def original(self, folder: Path, download: bool) -> RawDataset:
        return self.load(folder, folder if download else None)


def _joined(sets: list[Images]) -> Images:
    pixels = [pictures.resized(images.pixels, SIDE) for images in sets]
    coloured = [np.broadcast_to(gray, (*gray.shape[:3], 3)) for gray in pixels]
    numbers = np.repeat(np.arange(len(sets)), [len(images.labels) for images in sets])
    return Images(np.concatenate(coloured), np.concatenate([images.labels for images in sets]), numbers)
