"""A model, a partition, a data set and a method in files of their own, with a study that names them all."""

from pathlib import Path

NET = '''"""Two layers."""

import math

from helper import HALF
from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model


class Net(Model):
    """Two layers."""

    hidden: int = hp(8, low=1)
    "Width of the first layer."

    def extractor(self, shape):
        width = int(2 * HALF * self.hidden)
        layers = nn.Linear(math.prod(shape), width), nn.ReLU(), nn.Linear(width, self.features)
        return nn.Sequential(nn.Flatten(), *layers)
'''
KIND = '''"""Round robin."""

import json
from pathlib import Path

import numpy as np

from fedgrid.partition.base import SampledPartition


class RoundRobin(SampledPartition):
    """Image after image."""

    source = "nobody"
    named = ("clients",)
    files = ("shift.json",)

    def owners(self, pool, random):
        shift = json.loads(Path(__file__).with_name("shift.json").read_text())
        return (np.arange(len(pool.labels)) + shift) % self.clients

    def description(self):
        return f"round robin, {self.clients} clients"
'''
NOISE = '''"""Noise."""

import numpy as np

from fedgrid.data.common.images import Images, RawDataset
from fedgrid.data.families.drawn import DrawnDataSet
from fedgrid.randomness import generator


class Noise(DrawnDataSet):
    """Noise of two classes."""

    title = "Noise"
    image_counts = {"train": 160, "test": 40}
    shape = (8, 8, 1)
    classes = ("a", "b")

    def original(self, folder, download):
        return RawDataset({part: self._part(part, n) for part, n in self.image_counts.items()}, self.classes)

    def _part(self, part, n):
        pixels = generator("noise", part).integers(0, 256, (n, *self.shape), np.uint8)
        return Images(pixels, np.arange(n) % 2)
'''
MINE = '''"""A method."""

from fedgrid.methods.fedavg import FedAvg


class Mine(FedAvg):
    """FedAvg by another name."""
'''
FILES = {
    "net.py": NET,
    "helper.py": "HALF = 0.5\n",
    "kind.py": KIND,
    "shift.json": "0",
    "noise.py": NOISE,
    "mine.py": MINE,
}
STUDY = """
name: plugins
data: [plug/noise.py]
heterogeneity: [{partition: plug/kind.py, clients: 4}]
seeds: [0]
model: {name: plug/net.py, hidden: 4, features: 4}
training: {rounds: 1}
methods: {mine: {method: plug/mine.py}, local: {}}
"""


def write(folder: Path) -> Path:
    """Writes the files to `folder`/plug, which is returned, and the study beside it."""
    plug = folder / "plug"
    plug.mkdir()
    for name, text in FILES.items():
        (plug / name).write_text(text)
    (folder / "study.yaml").write_text(STUDY)
    return plug
