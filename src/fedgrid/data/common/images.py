"""Images with their labels, as the sources of a data set give them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

PARTS = ("train", "test")


@dataclass(frozen=True)
class Images:
    """Images [n, height, width, channels] (uint8, or float32 features), labels int64 [n], and what some sets add."""

    pixels: np.ndarray
    labels: np.ndarray
    domains: np.ndarray | None = None
    "Positions in the set's list of domains, int64 [n]."
    captions: list[str] | None = None


@dataclass(frozen=True)
class RawDataset:
    """A data set as one of its sources gives it."""

    parts: Mapping[str, Images]
    "By the names in `PARTS`; a part that the authors did not publish is empty."
    classes: tuple[str, ...]
    domains: tuple[str, ...] = ()
    note: str = ""
    "What a reader of results must know where this is not the original, pixel by pixel: lossy, partial, resized."


@dataclass(frozen=True)
class Published:
    """The original of a data set as its authors published it; a local copy is compared with it."""

    images: Mapping[str, int]
    "Number of images of every part; none where the files at hand are all that is known."
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
