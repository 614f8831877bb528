"""The files that ``fedgrid new-model``, ``new-partition`` and ``new-data`` write."""

MODEL = '''"""{title}: one sentence of idea.

Authors, Title, Venue Year, Table 1. Say which sizes the paper leaves open, and where these come from.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model


class {title}(Model):
    source = "Authors, Venue Year"
    smallest = 8  # height and width that images need at least

    # every field is a setting: `model: {{name: {name}.py, channels: 32}}` in a study, and --model-set channels=32
    channels: int = hp(16, low=1, high=65_536)
    "Channels of the convolution."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        """The layers from images [B, colours, height, width] to features [B, k]; the linear head is added to them.

        Layers are pure functions of their parameters: batch norm is fedgrid.models.common.norm.BatchNorm, and the
        setting `dropout`, which every model has, stands for layers that drop.
        """
        height, width, colours = shape
        return nn.Sequential(
            nn.Conv2d(colours, self.channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(self.channels * (height // 2) * (width // 2), self.features),
            nn.ReLU(),
        )
'''
PARTITION = '''"""{title}: one sentence of idea.

Authors, Title, Venue Year, Sec. 4. Say which images a client gets, and where you read the paper differently.
"""

import numpy as np

from fedgrid.components import hp
from fedgrid.data.common.store import Labels
from fedgrid.partition.base import SampledPartition


class {title}(SampledPartition):
    source = "Authors, Venue Year"
    named = ("skew", "clients")  # settings that the folder's name always has

    # every field is a setting: `heterogeneity: [{{partition: {name}.py, skew: 0.8}}]`, and --partition-set skew=0.8;
    # clients, test, train_share, validation and others come from SampledPartition
    skew: float = hp(0.5, low=0, high=0.9)
    "Share of the images that go to the client of their class; the others go to any client."

    def owners(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        """The client [n] of every image of the pool; all randomness comes from `random`."""
        anyone = random.integers(0, self.clients, len(pool.labels))
        skewed = random.random(len(pool.labels)) < self.skew
        return np.where(skewed, pool.labels % self.clients, anyone)

    def description(self) -> str:
        """The setting as a person says it, for captions."""
        return f"{name} (skew={{self.skew:g}}), {{self.clients}} clients"
'''
DATA = '''"""{title}: one sentence on what the images show.

Authors, Title, Venue Year, and where its files are published.
"""

from pathlib import Path

import numpy as np

from fedgrid.data.common.images import Images, RawDataset
from fedgrid.data.families.drawn import DrawnDataSet
from fedgrid.randomness import generator


class {title}(DrawnDataSet):
    # images that lie in files: derive from fedgrid.data.base.DataSet, read them below `folder` in `original`, return
    # None where they are not there, and say in `has_original` whether they are
    title = "{title}"  # its name in tables
    source = "Authors, Venue Year"
    image_counts = {{"train": 800, "test": 200}}
    shape = (8, 8, 1)  # height, width, channels
    classes = ("dark", "bright")
    mean = (0.5,)  # inputs are (pixel / 255 - mean) / std
    std = (0.3,)

    def original(self, folder: Path, download: bool) -> RawDataset | None:
        """Pixels (uint8 [n, height, width, channels]) and labels (int64 [n]) of every part."""
        return RawDataset({{part: self._drawn(part, count) for part, count in self.image_counts.items()}}, self.classes)

    def _drawn(self, part: str, count: int) -> Images:
        """Grey noise around the brightness of the class; the same images every time."""
        random = generator("{name}", part)
        labels = np.arange(count) % len(self.classes)
        brightness = np.array([100, 155])[labels].reshape(count, 1, 1, 1)
        pixels = brightness + random.normal(0, 30, (count, *self.shape))
        return Images(pixels.clip(0, 255).astype(np.uint8), labels)
'''
