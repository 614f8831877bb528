"""Synthetic Digits: 479,400 + 9,553 digits drawn with computer fonts on coloured grounds, 32×32 RGB."""

from pathlib import Path

import numpy as np

from fedgrid.data.base import DataSet
from fedgrid.data.common.images import PARTS, Images, RawDataset
from fedgrid.errors import UserError


class SyntheticDigits(DataSet):
    title = "Synthetic Digits"
    source = "Ganin & Lempitsky, Unsupervised domain adaptation by backpropagation, 2015"
    image_counts = {"train": 479_400, "test": 9_553}
    shape = (32, 32, 3)
    classes = tuple("0123456789")
    mean = (0.5,)
    std = (0.5,)
    wanted = "the authors' synth_train_32x32.mat and synth_test_32x32.mat into <data_root>/synth"

    def original(self, folder: Path, download: bool) -> RawDataset | None:
        """As `DataSet.original`; the authors' files have no stable address, so nothing is downloaded."""
        if not self.has_original(folder):
            return None
        return RawDataset({part: _images(_file(folder, part)) for part in PARTS}, self.classes)

    def has_original(self, root: Path) -> bool:
        return all(_file(root, part).is_file() for part in PARTS)


def _file(root: Path, part: str) -> Path:
    return root / "synth" / f"synth_{part}_32x32.mat"


def _images(file: Path) -> Images:
    """MATLAB's X [height, width, channel, n] and y [n, 1], in which SVHN's convention writes digit 0 as 10."""
    from scipy.io import loadmat

    try:
        content = loadmat(file, variable_names=["X", "y"])
        pixels, labels = content["X"].astype(np.uint8), content["y"].astype(np.int64).reshape(-1)
        return Images(np.ascontiguousarray(pixels.transpose(3, 0, 1, 2)), np.where(labels == 10, 0, labels))
    # scipy reports a damaged file as almost anything; the file is one that the user put there
    except Exception as error:
        raise UserError(f"{file}: incomplete or damaged MATLAB file; it needs X and y ({error}); replace it") from error
