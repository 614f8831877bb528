"""Convolutions for signals of sensors: twice (convolution, ReLU, max-pooling) along time, a layer | classes.

Channels are read together, in the manner of the networks that recognise human activity (HAR) from accelerometers and
gyroscopes since Zeng et al. A signal keeps its length in a convolution, and halves it in each pooling.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.data.common.images import SIGNAL
from fedgrid.errors import UserError
from fedgrid.models.base import Model

POOLINGS = 2


class HARCNN(Model):
    title = "HAR-CNN"
    source = "after Zeng et al., MobiCASE 2014; sizes are this benchmark's"
    kinds = (SIGNAL,)

    channels: int = hp(32, low=1, high=65_536)
    "Channels of the first convolution; the second has twice as many."
    width: int = hp(9, low=1, high=1_001)
    "Readings that a convolution sees, an odd number."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        _, length, inputs = shape
        if length < 2**POOLINGS:
            raise UserError(f"model: har_cnn needs signals of at least {2**POOLINGS} readings, not {length}")
        if self.width % 2 == 0:
            raise UserError(f"model.width: {self.width} readings have no middle; choose an odd number")
        layers: list[nn.Module] = []
        for outputs in (self.channels, 2 * self.channels):
            convolution = nn.Conv2d(inputs, outputs, (1, self.width), padding=(0, self.width // 2))
            layers += [convolution, nn.MaxPool2d((1, 2)), nn.ReLU()]  # which commute; see `pooled_convolution`
            inputs = outputs
        last = nn.Linear(inputs * (length // 2**POOLINGS), self.features), nn.ReLU()
        return nn.Sequential(*layers, nn.Flatten(), *last)
