"""Data sets that are drawn here, as functions of their settings: no file is read, and nothing is downloaded."""

from pathlib import Path

from fedgrid.data.base import DataSet
from fedgrid.data.common.images import DatasetInfo, RawDataset


class DrawnDataSet(DataSet):
    """A data set whose `original` needs no files."""

    source = "drawn by fedgrid"

    def is_available(self, root: Path | None) -> bool:
        return True

    def info(self, root: Path | None) -> DatasetInfo:
        return super().info(None)  # files under `root` do not know the settings

    def load(self, root: Path | None, download: Path | None) -> RawDataset:
        raw = self.original(Path(), download=False)
        assert raw is not None  # nothing can be missing
        return raw
