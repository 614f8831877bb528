"""MNIST-M: 59,001 + 9,001 MNIST digits blended with patches of photographs, 32×32 RGB."""

from pathlib import Path

import numpy as np

from fedgrid.data.base import DataSet
from fedgrid.data.common.images import PARTS, Images, RawDataset
from fedgrid.data.sources import download as downloads
from fedgrid.data.sources import lists, pictures

URL = "https://cornell.box.com/shared/static/jado7quprg6hzzdubvwzh9umr75damwi"
MD5 = "859df31c91afe82e80e5012ba928f279"


class MnistM(DataSet):
    title = "MNIST-M"
    source = "Ganin & Lempitsky, Unsupervised domain adaptation by backpropagation, 2015"
    image_counts = {"train": 59_001, "test": 9_001}
    shape = (32, 32, 3)
    classes = tuple("0123456789")
    mean = (0.4569, 0.4614, 0.4079)
    std = (0.2499, 0.2359, 0.2551)
    wanted = "the folder mnist_m of mnist_m.tar.gz (mnist_m_train, mnist_m_train_labels.txt, …) into <data_root>"

    def original(self, folder: Path, download: bool) -> RawDataset | None:
        if not self.has_original(folder):
            if not download:
                return None
            downloads.unpacked(downloads.fetch(URL, folder / "mnist_m.tar.gz", md5=MD5), "mnist_m")
        return RawDataset({part: _images(folder / "mnist_m", part) for part in PARTS}, self.classes)

    def has_original(self, root: Path) -> bool:
        return all((root / "mnist_m" / f"mnist_m_{part}_labels.txt").is_file() for part in PARTS)


def _images(folder: Path, part: str) -> Images:
    file = folder / f"mnist_m_{part}_labels.txt"
    rows = lists.pairs(file)
    pixels = pictures.decoded((folder / f"mnist_m_{part}" / name for name, _ in rows), 32, 3)
    return Images(pixels, np.array([lists.integer(file, label) for _, label in rows], np.int64))
