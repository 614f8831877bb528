"""Handwritten digits, 8×8 grey, from scikit-learn: 1,797 real images that need no network.

Pixels are counts of ink from 0 to 16. The authors' split is not part of scikit-learn's copy, so all images are in the
training part.
"""

from pathlib import Path

import numpy as np

from fedgrid.data.base import DataSet
from fedgrid.data.common.images import Images, RawDataset


class Digits(DataSet):
    title = "digits"
    source = "Alpaydin & Kaynak, UCI Optical Recognition of Handwritten Digits, 1998; scikit-learn's copy"
    image_counts = {"train": 1_797, "test": 0}
    checksum = "65e5b4619795efb40c1082f4c350c049e4ad552200d369b6ae99e21eef5e72c5"
    shape = (8, 8, 1)
    classes = tuple("0123456789")
    scale = 16.0
    mean = (0.3053,)
    std = (0.3761,)

    def is_available(self, root: Path | None) -> bool:
        return True

    def load(self, root: Path | None, download: Path | None) -> RawDataset:
        return self.original()

    def original(self, folder: Path | None = None, download: bool = False) -> RawDataset:
        from sklearn.datasets import load_digits  # imported late: it takes a second

        bunch = load_digits()
        pixels = bunch.images.astype(np.uint8)[..., np.newaxis]
        nothing = Images(np.empty((0, *self.shape), np.uint8), np.empty(0, np.int64))
        return RawDataset({"train": Images(pixels, bunch.target.astype(np.int64)), "test": nothing}, self.classes)
