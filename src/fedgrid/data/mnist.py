"""MNIST: 60,000 + 10,000 handwritten digits, 28×28 grey."""

from collections.abc import Mapping
from pathlib import Path

from fedgrid.data.base import DataSet, Images
from fedgrid.data.sources import parquet, vision
from fedgrid.errors import UserError


class Mnist(DataSet):
    title = "MNIST"
    source = "LeCun, Bottou, Bengio & Haffner, Gradient-based learning applied to document recognition, 1998"
    images = 70_000
    checksum = "1e35582d42a90940c55b956deb61875c020b567ed20e3c5b174f52bf7809ed9b"
    shape = (28, 28, 1)
    classes = tuple("0123456789")
    mean = (0.1307,)
    std = (0.3081,)

    def found(self, root: Path | None) -> bool:
        return parquet.found(root, "mnist") or (root is not None and (root / "MNIST" / "raw").is_dir())

    def load(self, root: Path | None, download: Path | None) -> Mapping[str, Images]:
        if parquet.found(root, "mnist"):
            return parquet.read(root, "mnist")
        local = vision.read("MNIST", root, download=False) if root else None
        if local is None and download is not None:
            local = vision.read("MNIST", download, download=True)
        if local is None:
            raise UserError(
                "data 'mnist' is not at hand: put train.parquet and test.parquet into <data_root>/mnist or "
                "torchvision's files into <data_root>/MNIST/raw, or allow the download (download: true)"
            )
        return local
