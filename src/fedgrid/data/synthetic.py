"""Random images that can be learnt, in any size and number: for tests, measurements of speed and studies of scale.

Every class has a smooth random pattern. A domain shows it in other colours and with another contrast, on a smooth
pattern of its own; every pixel has noise. All of it is a function of the settings.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedgrid.components import hp
from fedgrid.data.common.images import Images, RawDataset
from fedgrid.data.families.drawn import DrawnDataSet
from fedgrid.randomness import generator

WAVES = 4
"Smooth patterns are sums of cosines with fewer half-waves than this along each side."
GREY, AMPLITUDE = 0.5, 0.05
"Mean of the pixels, and standard deviation of a class's pattern, with black at 0 and white at 1."
AT_ONCE = 1 << 24
"Pixel values that are computed together; the memory needed beside the images is a few times as many floats."


class Synthetic(DrawnDataSet):
    title = "synthetic"
    mean = (GREY,)
    std = (0.25,)

    train_images: int = hp(10_000, low=1, high=10_000_000)
    "Images in the training part."
    test_images: int = hp(2_000, low=0, high=10_000_000)
    "Images in the test part."
    size: int = hp(28, low=4, high=1024)
    "Height and width of an image, before `side` resizes it."
    channels: int = hp(1, choices=(1, 3))
    "Grey or colour."
    class_count: int = hp(10, low=2, high=32_767)
    "Classes; each has the same number of images, give or take one."
    domain_count: int = hp(1, low=1, high=32_767)
    "Domains, with as many images each; with 1 the data set has none."
    noise: float = hp(5.0, low=0)
    "Standard deviation of a pixel's noise, in units of that of a class's pattern; from 6 on, much is clipped."
    draw: int = hp(0, low=0)
    "Seed of everything that is random in the data set."

    @property
    def image_counts(self) -> Mapping[str, int]:
        return {"train": self.train_images, "test": self.test_images}

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.size, self.size, self.channels

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(f"class {number}" for number in range(self.class_count))

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(f"domain {number}" for number in range(self.domain_count)) if self.domain_count > 1 else ()

    def original(self, folder: Path, download: bool) -> RawDataset:
        parts = {part: self._part(part, count) for part, count in self.image_counts.items()}
        return RawDataset(parts, self.classes, self.domains)

    def _part(self, part: str, count: int) -> Images:
        order = generator("synthetic order", self.draw, part).permutation(count)
        labels, domains = order % self.class_count, order // self.class_count % self.domain_count
        pixels = self._pixels(part, labels, domains)
        return Images(pixels, labels, domains if self.domains else None)

    def _pixels(self, part: str, labels: np.ndarray, domains: np.ndarray) -> np.ndarray:
        patterns = self._patterns("classes", self.class_count)
        gain, ground = self._domains()
        noise = generator("synthetic noise", self.draw, part)
        pixels = np.empty((len(labels), *self.shape), np.uint8)
        step = max(1, AT_ONCE // pixels[:1].size) if len(pixels) else 1
        for start in range(0, len(pixels), step):
            some = slice(start, start + step)
            values = noise.standard_normal(pixels[some].shape, np.float32)
            values *= self.noise
            values += patterns[labels[some]]
            values *= gain[domains[some]]
            values += ground[domains[some]]
            values *= 255 * AMPLITUDE
            values += 255 * GREY
            pixels[some] = np.rint(values, out=values).clip(0, 255, out=values)
        return pixels

    def _domains(self) -> tuple[np.ndarray, np.ndarray]:
        """Contrast of every channel [domains, 1, 1, channels], and background [domains, size, size, channels]."""
        if self.domain_count == 1:
            return np.ones((1, 1, 1, self.channels), np.float32), np.zeros((1, *self.shape), np.float32)
        drawn = generator("synthetic colours", self.draw)
        gain = drawn.uniform(0.5, 1.5, (self.domain_count, 1, 1, self.channels))
        tint = drawn.normal(0, 1, gain.shape)
        ground = self._patterns("domains", self.domain_count) + tint
        return gain.astype(np.float32), ground.astype(np.float32)

    def _patterns(self, of: str, count: int) -> np.ndarray:
        """Smooth patterns float32 [count, size, size, channels], each with mean 0 and standard deviation 1."""
        weights = generator("synthetic patterns", self.draw, of).normal(size=(count, WAVES, WAVES, self.channels))
        weights[:, 0, 0] = 0  # the constant
        middle = (np.arange(self.size) + 0.5) / self.size
        waves = np.cos(np.pi * np.outer(middle, np.arange(WAVES)))
        patterns = np.einsum("hi,wj,nijc->nhwc", waves, waves, weights, optimize=True)
        normalised: np.ndarray = patterns / patterns.std(axis=(1, 2, 3), keepdims=True)
        return normalised.astype(np.float32)
