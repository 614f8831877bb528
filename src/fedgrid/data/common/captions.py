"""Captions as numbers: words, the vocabulary of the training captions, tokens.

Words are runs of letters and digits, in lower case. The vocabulary holds the words that occur at least twice in the
training captions, the most frequent first, equally frequent ones by alphabet. The token of its word number i is i + 2;
0 fills sentences up, and 1 is any other word. The caption of a picture is its sentences, one a line.
"""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from fedgrid.data.common.images import MODALITIES, PARTS, Images, RawDataset

FILLED, UNKNOWN, FIRST = 0, 1, 2
"The tokens of no word, of a word outside the vocabulary, and of the vocabulary's first word."
OFTEN = 2
"A word of the vocabulary occurs at least so often."
MOST = np.iinfo(np.uint16).max + 1 - FIRST
"Words that 16 bits can tell apart."


def words(text: str) -> list[str]:
    """The words of a text, in order."""
    return re.findall(r"[^\W_]+", text.lower())


def vocabulary(captions: Sequence[str]) -> tuple[str, ...]:
    """The words of the vocabulary of these captions, in order; at most `MOST`."""
    return frequent(Counter(word for caption in captions for word in words(caption)), MOST)


def frequent(counts: Mapping[str, int], most: int) -> tuple[str, ...]:
    """The `most` frequent words of those that occur often enough, in the order of a vocabulary."""
    by_count = sorted((-count, word) for word, count in counts.items() if count >= OFTEN)
    return tuple(word for _, word in by_count[:most])


def tokens(captions: Sequence[str], known: Sequence[str], sentences: int, length: int) -> np.ndarray:
    """Tokens uint16 [n, sentences, length] of n captions: of each sentence the first `length` words.

    A caption with fewer sentences has them again from the first; of one with more, the first count.
    """
    number = {word: FIRST + position for position, word in enumerate(known)}
    tokens_of_captions = np.full((len(captions), sentences, length), FILLED, np.uint16)
    for rows, caption in zip(tokens_of_captions, captions, strict=True):
        for row, sentence in zip(rows, itertools.cycle(caption.splitlines()), strict=False):
            numbers = [number.get(word, UNKNOWN) for word in words(sentence)[:length]]
            row[: len(numbers)] = numbers
    return tokens_of_captions


def in_two_modalities(raw: RawDataset, sentences: int, length: int) -> RawDataset:
    """Captioned pictures with every picture as a visual sample and every caption as a textual one.

    Visual samples come before textual ones, both in the order of the pictures.
    """
    known = vocabulary(raw.parts["train"].captions or ())

    def parted(images: Images) -> Images:
        modality = np.repeat(np.arange(len(MODALITIES)), len(images.labels))
        labels = np.tile(images.labels, len(MODALITIES))
        tokens_of_captions = tokens(images.captions or (), known, sentences, length)
        return Images(images.pixels, labels, modality=modality, tokens=tokens_of_captions)

    parts = {part: parted(raw.parts[part]) for part in PARTS}
    return RawDataset(parts, raw.classes, note=raw.note, modalities=MODALITIES, vocabulary=known)
