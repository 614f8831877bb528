"""Images with their labels, as the sources of a data set give them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

PARTS = ("train", "test")
COLUMNS = ("image", "label", "domain", "caption", "tokens", "modality")
"Columns of built data sets that have a meaning of their own: no column that is kept has one of these names."
MODALITIES = ("visual", "textual")
"Of pictures and their captions, as FedSaC (Yan et al., ICML 2024, Table 2) names them."


@dataclass(frozen=True)
class Images:
    """Images [n, height, width, channels] (uint8, or float32 features), labels int64 [n], and what some sets add.

    Where there are modalities, `pixels` are those of the visual samples alone, in their order, and `tokens` those of
    the textual ones; all else is of all samples.
    """

    pixels: np.ndarray
    labels: np.ndarray
    domains: np.ndarray | None = None
    "Positions in the set's list of domains, int64 [n]."
    captions: list[str] | None = None
    "The sentences of every image, one a line."
    modality: np.ndarray | None = None
    "Positions in `MODALITIES`, int64 [n]."
    tokens: np.ndarray | None = None
    "Of the textual samples, uint16 [n, captions, words]: see `fedgrid.data.common.captions`."
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)
    "By column that is kept (a writer, a hospital): positions in the set's list of its values, int64 [n]."

    def rows(self, some: slice) -> "Images":
        """Some of the images; there have to be no modalities."""
        domains = None if self.domains is None else self.domains[some]
        captions = None if self.captions is None else self.captions[some]
        kept = {column: positions[some] for column, positions in self.kept.items()}
        return Images(self.pixels[some], self.labels[some], domains, captions, kept=kept)


@dataclass(frozen=True)
class RawDataset:
    """A data set as one of its sources gives it."""

    parts: Mapping[str, Images]
    "By the names in `PARTS`; a part that the authors did not publish is empty."
    classes: tuple[str, ...]
    domains: tuple[str, ...] = ()
    note: str = ""
    "What a reader of results must know where this is not the original, pixel by pixel: lossy, partial, resized."
    modalities: tuple[str, ...] = ()
    "`MODALITIES`, where the samples are of two modalities."
    vocabulary: tuple[str, ...] = ()
    "The words of the tokens, in the order of their numbers."
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "By column that is kept: its different values in all parts, sorted."


@dataclass(frozen=True)
class Published:
    """The original of a data set as its authors published it; a local copy is compared with it."""

    images: Mapping[str, int]
    "Number of images of every part; none where nothing but the local files is known."
    classes: tuple[str, ...]
    "Names in the order of the labels."
    domains: tuple[str, ...] = ()
    checksum: str = ""
    "SHA-256 of pixels and labels, where it is known."


@dataclass(frozen=True)
class DatasetInfo:
    """What a study must know of a data set before it is built."""

    images: Mapping[str, int]
    "Number of images of every part."
    shape: tuple[int, int, int]
    "Height, width, channels of a prepared image."
    classes: tuple[str, ...]
    domains: tuple[str, ...] = ()
    copy: str = ""
    "Identity of a local copy; empty for the original, whichever source it comes from."
    modalities: tuple[str, ...] = ()
    "As many images are of each, where there are any."
    kept: Mapping[str, int] = field(default_factory=dict)
    "By column that is kept: the number of its different values in all parts."

    def of_one_modality(self) -> "DatasetInfo":
        """The same of the images of one modality; without modalities, of all images."""
        images = {part: count // (len(self.modalities) or 1) for part, count in self.images.items()}
        return replace(self, images=images, modalities=())
