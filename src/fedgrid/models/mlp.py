"""A perceptron with two hidden layers: pixels → hidden → features | classes.

Without the first (`hidden: null`) it is FedCCL's two-layer MLP on features of 192 numbers: 192 → 128 | classes.
"""

import math

from torch import nn

from fedgrid.components import hp
from fedgrid.data.common.images import IMAGE, SIGNAL, TABULAR
from fedgrid.models.base import Model
from fedgrid.models.common.norm import KINDS, norm


class MLP(Model):
    kinds = (IMAGE, SIGNAL, TABULAR)

    hidden: int | None = hp(128, low=1, high=65_536)
    "Width of the first layer; none: there is only the layer of features."
    norm: str = hp("none", choices=KINDS)
    "Normalisation before each ReLU."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        before, layers = math.prod(shape), []
        for width in filter(None, (self.hidden, self.features)):
            layers += [nn.Linear(before, width), *norm(self.norm, width), nn.ReLU()]
            before = width
        return nn.Sequential(nn.Flatten(), *layers)
