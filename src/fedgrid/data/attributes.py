"""Drawn pictures with captions, for tests and for studies of two modalities without downloads.

A class is a combination of attributes: shape, colour, size, texture and ground. Each picture shows them somewhere else,
turned, in other shades, among specks of other colours and under noise. Each of its ten sentences names a few of them,
with synonyms, among words that say nothing, and is sometimes wrong. So neither one picture nor one sentence tells the
class for sure. Every picture is a visual sample and its sentences are a textual sample of the same class.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedgrid.components import hp
from fedgrid.data.common.captions import in_two_modalities
from fedgrid.data.common.images import MODALITIES, Images, RawDataset
from fedgrid.data.families.drawn import DrawnDataSet
from fedgrid.randomness import generator

T = TypeVar("T")
WORDS = {
    "shape": {
        "circle": ("circle", "disc", "ball"),
        "square": ("square", "box", "tile"),
        "triangle": ("triangle", "wedge", "arrowhead"),
        "cross": ("cross", "plus", "crossing"),
        "ring": ("ring", "hoop", "loop"),
        "bar": ("bar", "beam", "plank"),
    },
    "colour": {
        "red": ("red", "crimson", "scarlet"),
        "green": ("green", "emerald", "grassy"),
        "blue": ("blue", "azure", "navy"),
        "yellow": ("yellow", "golden", "lemon"),
        "purple": ("purple", "violet", "mauve"),
        "grey": ("grey", "ashen", "silvery"),
    },
    "size": {"small": ("small", "little", "tiny"), "large": ("large", "big", "huge")},
    "texture": {
        "plain": ("plain", "even", "smooth"),
        "striped": ("striped", "banded", "lined"),
        "dotted": ("dotted", "spotted", "speckled"),
    },
    "ground": {
        "dark": ("dark", "black", "gloomy"),
        "bright": ("bright", "white", "pale"),
        "brown": ("brown", "earthy", "muddy"),
    },
}
"By attribute, its values, each with the words for it."
PHRASES = {
    "shape": ("shaped like a {}", "some {}", "a kind of {}"),
    "colour": ("its colour is {}", "mostly {}", "{} all over"),
    "size": ("rather {}", "{} in size", "a {} thing"),
    "texture": ("{} on the inside", "with a {} surface", "it looks {}"),
    "ground": ("on a {} ground", "behind it everything is {}", "in {} surroundings"),
}
"By attribute, how a sentence names it."
OPENINGS = ("one sees", "here is", "the picture shows something", "i think this is", "there it is again")
ENDINGS = ("", "as far as one can tell", "not far from the middle", "and a few specks", "nothing else to say")
ATTRIBUTES = tuple(WORDS)
SENTENCES = 10
"In a caption, as in that of a picture of CUB-200-2011."
COMBINATIONS = tuple(itertools.product(*(range(len(values)) for values in WORDS.values())))
"Every combination of values, as their positions."
COLOURS = ((0.8, 0.2, 0.2), (0.2, 0.65, 0.25), (0.2, 0.35, 0.8), (0.85, 0.75, 0.2), (0.6, 0.25, 0.7), (0.5, 0.5, 0.5))
GROUNDS = ((0.15, 0.15, 0.2), (0.85, 0.85, 0.8), (0.45, 0.3, 0.2))
"Red, green and blue of the colours and of the grounds, from 0 to 1."
RADII = 0.3, 0.5
"Of small and large shapes; a picture reaches from -1 to 1 in both directions."
FAINT = 0.45
"What is left of a colour between stripes and at dots."
SPECKS, SPECK = 4, (0.08, 0.2)
"Distractors in a picture, and their radii."
AT_ONCE = 500
"Pictures that are drawn together, for which some dozens of floats a pixel are kept."


class Attributes(DrawnDataSet):
    title = "Attributes"
    shape = (32, 32, 3)
    mean = (0.45,)
    std = (0.25,)

    train_images: int = hp(2_000, low=1, high=100_000)
    "Pictures in the training part; there are as many captions."
    test_images: int = hp(500, low=0, high=100_000)
    "Pictures in the test part; there are as many captions."
    class_count: int = hp(20, low=2, high=len(COMBINATIONS))
    "Classes; each has the same number of pictures, give or take one."
    noise: float = hp(0.15, low=0, high=1)
    "Standard deviation of a pixel's noise, with black at 0 and white at 1."
    named: int = hp(3, low=1, high=len(WORDS))
    "Attributes that a sentence names."
    slips: float = hp(0.1, low=0, high=1)
    "Share of the named attributes for which a sentence takes a value at random."
    caption_words: int = hp(20, low=1, high=1000)
    "Words that are kept of a sentence."
    draw: int = hp(0, low=0)
    "Seed of everything that is random in the data set."

    @property
    def image_counts(self) -> Mapping[str, int]:
        return {"train": self.train_images, "test": self.test_images}

    @property
    def classes(self) -> tuple[str, ...]:
        names = [list(values) for values in WORDS.values()]
        return tuple(" ".join(of[i] for of, i in zip(names, row, strict=True)) for row in self._combinations)

    @property
    def modalities(self) -> tuple[str, ...]:
        return MODALITIES

    def original(self, folder: Path, download: bool) -> RawDataset:
        parts = {part: self._part(part, count) for part, count in self.image_counts.items()}
        return in_two_modalities(RawDataset(parts, self.classes), SENTENCES, self.caption_words)

    @property
    def _combinations(self) -> np.ndarray:
        """The value of every class and attribute, [classes, attributes]."""
        return generator("attributes of classes", self.draw).permutation(COMBINATIONS)[: self.class_count]

    def _part(self, part: str, count: int) -> Images:
        labels = generator("attributes order", self.draw, part).permutation(count) % self.class_count
        values = self._combinations[labels]
        pictures, captions = (generator(f"attributes {what}", self.draw, part) for what in ("pictures", "captions"))
        pixels = np.empty((count, *self.shape), np.uint8)
        for start in range(0, count, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            noise = self.noise * pictures.standard_normal(pixels[some].shape, np.float32)
            pixels[some] = np.rint(255 * (_pictures(values[some], self.shape[0], pictures) + noise)).clip(0, 255)
        texts = ["\n".join(self._sentence(row, captions) for _ in range(SENTENCES)) for row in values]
        return Images(pixels, labels, captions=texts)

    def _sentence(self, values: np.ndarray, random: np.random.Generator) -> str:
        """One sentence on a picture with `values` [attributes]."""
        parts = [_any(OPENINGS, random)]
        for column in random.permutation(len(WORDS))[: self.named]:
            attribute, synonyms = ATTRIBUTES[column], list(WORDS[ATTRIBUTES[column]].values())
            slip = random.random() < self.slips
            word = _any(_any(synonyms, random) if slip else synonyms[values[column]], random)
            parts.append(_any(PHRASES[attribute], random).format(word))
        return " ".join([*parts, _any(ENDINGS, random)]).strip()


def _any(of: Sequence[T], random: np.random.Generator) -> T:
    return of[int(random.integers(len(of)))]


def _pictures(values: np.ndarray, side: int, random: np.random.Generator) -> np.ndarray:
    """Pictures float [n, side, side, 3], from 0 to 1 without noise, with `values` [n, attributes]."""
    shape, colour, size, texture, ground = values.T

    def drawn(low: float, high: float, *more: int) -> np.ndarray:
        return random.uniform(low, high, (len(values), *more))

    picture = np.array(GROUNDS)[ground] + drawn(-0.1, 0.1, 3)
    picture = np.tile(picture[:, None, None], (1, side, side, 1))
    for _ in range(SPECKS):
        across, down = _turned(side, drawn(-1, 1), drawn(-1, 1), drawn(*SPECK), drawn(0, 1))
        _paint(picture, across**2 + down**2 < 1, drawn(0, 1, 3)[:, None, None])
    radius = np.array(RADII)[size] * drawn(0.85, 1.15)
    across, down = _turned(side, drawn(-0.4, 0.4), drawn(-0.4, 0.4), radius, drawn(-0.3, 0.3))
    shade = _textured(texture, across, down)[..., None]
    tint = np.array(COLOURS)[colour] + drawn(-0.12, 0.12, 3)
    _paint(picture, _inside(shape, across, down), shade * tint[:, None, None])
    return picture


def _turned(side: int, x: np.ndarray, y: np.ndarray, radius: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, ...]:
    """Across and down from the middle (x, y) of something of this radius and angle, in radii [n, side, side]."""
    middle = (2 * np.arange(side) + 1) / side - 1
    across, down = (t / radius[:, None] for t in (middle - x[:, None], middle - y[:, None]))
    cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    across, down = across[:, None, :], down[:, :, None]
    return cos * across + sin * down, cos * down - sin * across


def _inside(shape: np.ndarray, across: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Whether a pixel belongs to a picture's shape, [n, side, side]."""
    x, y, square = np.abs(across), np.abs(down), across**2 + down**2
    near, far = np.minimum(x, y), np.maximum(x, y)
    shapes = [
        square < 1,
        far < 0.9,
        (2 * x < down + 1) & (down < 1),
        (near < 0.33) & (far < 1),
        (square > 0.4) & (square < 1.1),
        (x < 1.2) & (y < 0.4),
    ]
    return np.choose(shape[:, None, None], shapes)


def _textured(texture: np.ndarray, across: np.ndarray, down: np.ndarray) -> np.ndarray:
    """How much of the colour a pixel shows, [n, side, side]."""
    stripes = np.sin(9 * across) > 0
    dots = np.cos(7 * across) * np.cos(7 * down) < 0.35
    return np.choose(texture[:, None, None], [np.ones_like(across), *(np.where(t, 1, FAINT) for t in (stripes, dots))])


def _paint(picture: np.ndarray, where: np.ndarray, colour: np.ndarray) -> None:
    """Gives the pixels [n, side, side] of pictures [n, side, side, 3] a colour that fits the shape of these."""
    np.copyto(picture, colour, where=where[..., None])
