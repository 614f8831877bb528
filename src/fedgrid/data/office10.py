"""Office-Caltech-10: 2,533 photographs of ten office things in four domains; their sizes differ, so `side` is set.

There is no official split. In every class of every domain, n pictures in the order of their file names, a quarter of
them (rounded) is held out for testing, spread evenly: picture i (from 0) where ⌊(i+1)·q/n⌋ > ⌊i·q/n⌋ for q held out.
"""

from pathlib import Path

import numpy as np

from fedgrid.components import hp
from fedgrid.data.base import DataSet
from fedgrid.data.common.images import PARTS, Images, RawDataset
from fedgrid.data.sources import pictures
from fedgrid.errors import UserError

FOLDERS = ("office10", "office_caltech_da_dataset", "office_caltech_da_dataset-main")
SUFFIXES = (".jpg", ".jpeg", ".png")
HELD_OUT = 0.25
VARIANTS = {"laptopcomputer": "laptop", "headphone": "headphones"}
"Other names of classes, without case, digits and punctuation."


class OfficeTen(DataSet):
    title = "Office-Caltech-10"
    source = "Gong, Shi, Sha & Grauman, Geodesic flow kernel for unsupervised domain adaptation, 2012"
    image_counts = {"train": 1_897, "test": 636}
    shape = (96, 96, 3)
    classes = (
        "backpack", "bike", "calculator", "headphones", "keyboard", "laptop", "monitor", "mouse", "mug", "projector",
    )  # fmt: skip
    domains = ("amazon", "caltech", "dslr", "webcam")
    mean = (0.6775, 0.6679, 0.6610)
    std = (0.3330, 0.3336, 0.3365)
    wanted = "the folders <domain>/<class>/*.jpg (domains amazon, caltech, dslr, webcam) into <data_root>/office10"

    side: int | None = hp(96, low=1, high=1024)
    "Height and width to which images are resized (antialiased bilinear)."

    def original(self, folder: Path, download: bool) -> RawDataset | None:
        """As `DataSet.original`; the authors' files have no stable address, so nothing is downloaded."""
        home = _home(folder)
        if home is None:
            return None
        rows: dict[str, list[tuple[Path, int, int]]] = {part: [] for part in PARTS}
        for domain, name in enumerate(self.domains):
            for label, files in enumerate(_files(home, name, self.classes)):
                for part, file in _split(files):
                    rows[part].append((file, label, domain))
        return RawDataset({part: self._images(rows[part]) for part in PARTS}, self.classes, self.domains)

    def has_original(self, root: Path) -> bool:
        return _home(root) is not None

    def _images(self, rows: list[tuple[Path, int, int]]) -> Images:
        numbers = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
        return Images(pictures.decoded((row[0] for row in rows), self.side, 3), numbers[:, 0], numbers[:, 1])


def _home(root: Path) -> Path | None:
    """The folder under `root` that holds the four domains."""
    for name in FOLDERS:
        child = _child(root, name)
        if child is not None and all(_child(child, domain) for domain in OfficeTen.domains):
            return child
    return None


def _files(folder: Path, domain: str, classes: tuple[str, ...]) -> list[list[Path]]:
    """The pictures of every class of a domain, by name; UserError for a class that has no folder."""
    top = _child(folder, domain)
    assert top is not None  # else `_home` had not chosen `here`
    folders = {_plain(folder.name): folder for folder in sorted(top.iterdir()) if folder.is_dir()}
    missing = [name for name in classes if name not in folders]
    if missing:
        raise UserError(f"{folder / domain}: there are no folders of the classes {', '.join(missing)}")
    return [sorted(file for file in folders[name].iterdir() if file.suffix.lower() in SUFFIXES) for name in classes]


def _split(files: list[Path]) -> list[tuple[str, Path]]:
    count = len(files)
    held = round(HELD_OUT * count)
    return [(PARTS[(i + 1) * held // count > i * held // count], file) for i, file in enumerate(files)]


def _plain(name: str) -> str:
    letters = "".join(letter for letter in name.lower() if letter.isalpha())
    return VARIANTS.get(letters, letters)


def _child(folder: Path, name: str) -> Path | None:
    """The folder `name`, in whatever case, in `folder`."""
    if not folder.is_dir():
        return None
    return next((child for child in sorted(folder.iterdir()) if child.name.lower() == name and child.is_dir()), None)
