"""CUB-200-2011: 5,994 + 5,794 photographs of 200 species of birds; their sizes differ, so `side` is set.

Captions (Reed, Akata, Lee & Schiele, Learning deep representations of fine-grained visual descriptions, 2016: ten
sentences a picture) are read where the folder text_c10 lies beside the images. With `captions` every picture is a
visual sample, and its sentences are a textual sample of the same class.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedgrid.components import hp
from fedgrid.data.base import DataSet
from fedgrid.data.common.captions import in_two_modalities
from fedgrid.data.common.images import MODALITIES, Images, RawDataset
from fedgrid.data.sources import download as downloads
from fedgrid.data.sources import lists, names, pictures
from fedgrid.errors import UserError

URL = "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz"
SHA256 = "0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081"
FOLDER = "CUB_200_2011"
LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt")
TEXTS = "text_c10"
"The folder of captions: <class>/<picture>.txt, a sentence a line."
SENTENCES = 10


class Cub200(DataSet):
    title = "CUB-200-2011"
    source = "Wah, Branson, Welinder, Perona & Belongie, The Caltech-UCSD Birds-200-2011 dataset, 2011"
    image_counts = {"train": 5_994, "test": 5_794}
    shape = (64, 64, 3)
    classes = names.CUB200
    mean = (0.485, 0.456, 0.406)
    std = (0.229, 0.224, 0.225)
    wanted = f"the unpacked {FOLDER} (images, {', '.join(LISTS)}; captions in {TEXTS} if wanted) into <data_root>"

    side: int | None = hp(64, low=1, high=1024)
    "Height and width to which images are resized (antialiased bilinear)."
    captions: bool = hp(False)
    "Whether each picture's sentences, ten of them, are a textual sample beside the visual one."
    caption_words: int = hp(30, low=1, high=1000)
    "Words that are kept of a sentence, with captions."

    @property
    def modalities(self) -> tuple[str, ...]:
        return MODALITIES if self.captions else ()

    @property
    def by_hand(self) -> str:
        return f"the unpacked {FOLDER} and {TEXTS} (ten sentences a picture) into <data_root>" if self.captions else ""

    def original(self, folder: Path, download: bool) -> RawDataset | None:
        if not self.has_original(folder):
            if not download or self.by_hand:
                return None
            downloads.unpacked(downloads.fetch(URL, folder / f"{FOLDER}.tgz", SHA256), FOLDER)
        top = folder / FOLDER
        files, labels, training = (dict(lists.pairs(top / name)) for name in LISTS)
        chosen = {part: [i for i in files if training.get(i) == flag] for part, flag in (("train", "1"), ("test", "0"))}
        parts = {part: self._images(top, ids, files, labels) for part, ids in chosen.items()}
        raw = RawDataset(parts, self.classes)
        return in_two_modalities(raw, SENTENCES, self.caption_words) if self.captions else raw

    def has_original(self, root: Path) -> bool:
        at_hand = all((root / FOLDER / name).is_file() for name in LISTS)
        return at_hand and (not self.captions or _texts(root / FOLDER) is not None)

    def _images(self, top: Path, ids: list[str], files: Mapping[str, str], labels: Mapping[str, str]) -> Images:
        pixels = pictures.decoded((top / "images" / files[i] for i in ids), self.side, 3)
        numbers = [lists.integer(top / LISTS[1], labels.get(i, "nothing")) - 1 for i in ids]
        return Images(pixels, np.array(numbers, np.int64), captions=_captions(top, [files[i] for i in ids]))


def _texts(folder: Path) -> Path | None:
    """The folder of the captions: in the folder of the pictures, or beside it."""
    return next((parent / TEXTS for parent in (folder, folder.parent) if (parent / TEXTS).is_dir()), None)


def _captions(top: Path, files: list[str]) -> list[str] | None:
    """The sentences of every picture, one a line; None where the set has no captions."""
    folder = _texts(top)
    return [_sentences((folder / file).with_suffix(".txt")) for file in files] if folder else None


def _sentences(file: Path) -> str:
    """The sentences of one picture; UserError where there is none."""
    sentences = [line.strip() for line in lists.text(file).splitlines() if line.strip()]
    if not sentences:
        raise UserError(f"{file}: contains no sentence")
    return "\n".join(sentences)
