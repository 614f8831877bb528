"""A perceptron with two hidden layers: pixels → hidden → features | classes."""

import math

from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model


class MLP(Model):
    hidden: int = hp(128, low=1)
    "Width of the first layer."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        pixels = math.prod(shape)
        layers = [nn.Linear(pixels, self.hidden), nn.ReLU(), nn.Linear(self.hidden, self.features), nn.ReLU()]
        return nn.Sequential(nn.Flatten(), *layers)
