"""Your own Parquet files: train.parquet and test.parquet in a folder, or one file whose images are all for training.

Columns: image (binary), label (integer), and domain and caption (strings) if there are any. The schema metadata tells
encoding (raw, jpeg or png), height, width, channels and classes (a JSON list in the order of the labels). Other columns
are left out, but for those that the settings name.
"""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from fedgrid.components import hp
from fedgrid.data.base import DataSet
from fedgrid.data.common.images import PARTS, DatasetInfo, RawDataset
from fedgrid.data.sources import parquet, sizes
from fedgrid.errors import UserError
from fedgrid.files import path_of

MEND = "write all pictures in the size that the metadata say; `side` resizes no pictures of mixed sizes in a table"


class Table(DataSet):
    title = "Parquet"
    source = "the user's own Parquet files"
    image_counts: ClassVar = {}
    classes = ()
    mean = (0.5,)
    std = (0.5,)

    path: str = hp("")
    "The folder or the .parquet file; in a study, relative to its file."
    keep: str = hp("", since="1.1")
    "Columns that are kept with the images, with commas (writer_id,hospital): `natural` makes clients of their values."
    domain: str = hp("", since="1.1")
    "The column that is the domain; if empty, the column `domain` where there is one."

    def is_available(self, root: Path | None) -> bool:
        return bool(self.path) and parquet.is_present(self._path)

    def info(self, root: Path | None) -> DatasetInfo:
        """What the files hold; `copy` is the digest of all their bytes. Raises UserError as `load` does."""
        path = self._checked()
        info = parquet.info(path, self.published, self._columns)
        files = [path] if path.is_file() else [path / f"{part}.parquet" for part in PARTS]
        encoded = (picture for file in files for picture in sizes.in_table(file))
        sizes.check(encoded, info.shape[:2], info.copy, MEND)
        return replace(info, shape=self.prepared_shape(info.shape))

    def load(self, root: Path | None, download: Path | None) -> RawDataset:
        """The images in the order of the rows; `root` and `download` are not used.

        Raises UserError where there are no such files, and for files that are damaged or lack a column or a fact.
        """
        return self.original(self._checked(), download=False)

    def original(self, folder: Path, download: bool) -> RawDataset:
        return parquet.read(folder, self.published, self._columns)

    @property
    def _columns(self) -> parquet.Columns:
        names = filter(None, map(str.strip, self.keep.split(",")))
        return parquet.Columns(tuple(dict.fromkeys(names)), self.domain)

    @property
    def _path(self) -> Path:
        return path_of(self.path, "path")

    def _checked(self) -> Path:
        if not self.is_available(None):
            raise UserError(
                f"data 'table': '{self.path}' is neither a .parquet file nor a folder with train.parquet and "
                "test.parquet; set path to one of them"
            )
        return self._path
