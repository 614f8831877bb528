"""DomainNet (cleaned version): 586,575 pictures of 345 things in six domains; their sizes differ, so `side` is set.

`subset: ten` takes the ten classes that FedBN (Li et al., 2021) uses, those with the most pictures, in its order.
"""

import itertools
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedgrid.components import hp
from fedgrid.data.base import DataSet
from fedgrid.data.common.images import PARTS, DatasetInfo, Images, RawDataset
from fedgrid.data.sources import download as downloads
from fedgrid.data.sources import lists, names, parquet, pictures
from fedgrid.errors import UserError

SITE = "http://csr.bu.edu/ftp/visda/2019/multi-source"
ARCHIVES = {
    "clipart": ("groundtruth/", "f8f248a3e8bbc9868c523ae24e6601b4c2ad102afc60c0efeb4f3255df22354d"),
    "infograph": ("", "891e14f476317e97b6f06d6498c11d0a5b8d0c8b57210765ed9beb072da611fa"),
    "painting": ("groundtruth/", "fa47e6d405503ea0286cabd767f176bd30e988b63ddd7b9db16cf030c9770015"),
    "quickdraw": ("", "9f37df2a8c3733703dbb35ad9964202a65f675ca30137756457537536b485d84"),
    "real": ("", "d7fe010b430c5b510f85d657d38c4a1924822695fabea4fef57bd00dba251d63"),
    "sketch": ("", "23a7dbae7016b343e934399beaa8a68728fb5e570ebe2c71df9b75cf91c499fc"),
}
"Folder on the site and SHA-256 of every domain's archive."
LISTS = {
    "clipart_train": "affdadf5f95a7583e6b98030a3d35007e2613ee4dd942393c5a705ec2b429312",
    "clipart_test": "62c8e36aaba1c41ad9e249099739707220a44c08f167b37ef420f34a31628a6b",
    "infograph_train": "36b44cbd41a2915e0dc73b4f4be8862a6f3c220f93c8d63fb2439beeae3aefda",
    "infograph_test": "413cfa54ac92e7e6b242f4f09fbd9c8ace85c4deaf3cb6c81ff6b68264460136",
    "painting_train": "f1da38d50a702fddf1329f85bc607d7a2abcae7e6aec75e1fd49cc1bd340d47b",
    "painting_test": "11472b13b5188e09f06918b12eebb660588c97a20e43e268d9b02e3e37eb8f97",
    "quickdraw_train": "3a5edd3bc215772010eebc87f158707703dd7e48091d13b816af81326a9d1c0f",
    "quickdraw_test": "2a00a60650a453c65c356da748fec54084a197272137c440e7d52d08947357bf",
    "real_train": "19d483256d24aef19e581b65eda8333fd918aef3eb733fe499ff384120e3a289",
    "real_test": "2b3f75bcde309aeb5931292084b2162e936b5f189e3bb1ad716f0f74c460864c",
    "sketch_train": "72f4bc6afa5702a1ccba800d0053c1427de87439dfaf246dbc9a2e71abfec54f",
    "sketch_test": "3fb48fca18c507c4321f007c3f62b308ec232ff6928cbfe2af64e76ec366e840",
}
"SHA-256 of every list '<domain>/<class>/<picture> <label>'."
TEN = (
    "bird", "feather", "headphones", "ice_cream", "teapot", "tiger", "whale", "windmill", "wine_glass", "zebra",
)  # fmt: skip


class DomainNet(DataSet):
    title = "DomainNet"
    source = "Peng, Bai, Xia, Huang, Saenko & Wang, Moment matching for multi-source domain adaptation, 2019"
    image_counts = {"train": 409_832, "test": 176_743}
    shape = (64, 64, 3)
    domains = tuple(ARCHIVES)
    mean = (0.485, 0.456, 0.406)
    std = (0.229, 0.224, 0.225)
    wanted = "clipart.zip, … into <data_root>/domainnet and clipart_train.txt, … into <data_root>/domainnet/txt"

    side: int | None = hp(64, low=1, high=1024)
    "Height and width to which images are resized (antialiased bilinear)."
    subset: str = hp("ten", choices=("ten", "all"))
    "The ten classes that FedBN uses, or all 345."

    @property
    def classes(self) -> tuple[str, ...]:
        return TEN if self.subset == "ten" else names.DOMAINNET

    def info(self, root: Path | None) -> DatasetInfo:
        """As `DataSet.info`; the pictures of the ten classes are counted in the authors' lists.

        Before these are there, the counts are those of all classes, which the ten cannot exceed.
        """
        info = super().info(root)
        if self.subset == "all" or root is None or parquet.is_present(root / self.name) or not _has_lists(root):
            return info
        counts = {part: len(self._rows(root / "domainnet", part)) for part in PARTS}
        return DatasetInfo(counts, info.shape, info.classes, info.domains)

    def load(self, root: Path | None, download: Path | None) -> RawDataset:
        raw = super().load(root, download)
        if raw.classes != self.classes:
            raise UserError(
                f"data 'domainnet': the local copy does not have the {len(self.classes)} classes of this `subset`"
            )
        return raw

    def original(self, folder: Path, download: bool) -> RawDataset | None:
        if not self.has_original(folder):
            if not download:
                return None
            _download(folder / "domainnet")
        parts = {part: self._images(folder / "domainnet", part) for part in PARTS}
        return RawDataset(parts, self.classes, self.domains)

    def has_original(self, root: Path) -> bool:
        return _has_lists(root) and all((root / "domainnet" / f"{domain}.zip").is_file() for domain in self.domains)

    def _images(self, folder: Path, part: str) -> Images:
        rows = self._rows(folder, part)
        numbers = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
        pixels = pictures.decoded(_members(folder, [row[0] for row in rows]), self.side, 3, where=f"{folder}, {part}")
        return Images(pixels, numbers[:, 0], numbers[:, 1])

    def _rows(self, folder: Path, part: str) -> list[tuple[str, int, int]]:
        """(picture, label, domain) of the subset's pictures, domain by domain; UserError for an unknown class."""
        label_of = {name: number for number, name in enumerate(self.classes)}
        known, rows = set(names.DOMAINNET), []
        for number, domain in enumerate(self.domains):
            file = folder / "txt" / f"{domain}_{part}.txt"
            for picture, _ in lists.pairs(file):
                name = Path(picture).parent.name
                if name not in known:
                    raise UserError(f"{file}: no class '{name}' in DomainNet")
                if name in label_of:
                    rows.append((picture, label_of[name], number))
        return rows


def _has_lists(root: Path) -> bool:
    return all((root / "domainnet" / "txt" / f"{name}.txt").is_file() for name in LISTS)


def _download(folder: Path) -> None:
    for name, sha256 in LISTS.items():
        downloads.fetch(f"{SITE}/domainnet/txt/{name}.txt", folder / "txt" / f"{name}.txt", sha256)
    for domain, (subfolder, sha256) in ARCHIVES.items():
        downloads.fetch(f"{SITE}/{subfolder}{domain}.zip", folder / f"{domain}.zip", sha256)


def _members(folder: Path, files: list[str]) -> Iterator[bytes]:
    """The bytes of pictures '<domain>/<class>/<name>', out of their domains' archives."""
    for domain, group in itertools.groupby(files, lambda file: file.partition("/")[0]):
        archive = folder / f"{domain}.zip"
        try:
            with zipfile.ZipFile(archive) as pictures_of_domain:
                for file in group:
                    yield pictures_of_domain.read(file)
        except (OSError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise UserError(f"{archive}: incomplete or damaged archive ({error}); replace it") from error
