"""A perceptron with two hidden layers: pixels → hidden → features | classes."""

import math

from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model
from fedgrid.models.norm import KINDS, norm


class MLP(Model):
    hidden: int = hp(128, low=1)
    "Width of the first layer."
    norm: str = hp("none", choices=KINDS)
    "Normalisation before each ReLU."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        pixels = math.prod(shape)
        first = [nn.Linear(pixels, self.hidden), *norm(self.norm, self.hidden), nn.ReLU()]
        second = [nn.Linear(self.hidden, self.features), *norm(self.norm, self.features), nn.ReLU()]
        return nn.Sequential(nn.Flatten(), *first, *second)
