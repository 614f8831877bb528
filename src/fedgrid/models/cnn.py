"""The two-block CNN of FedCoSR: twice (convolution, ReLU, max-pooling), then one layer to k features | classes.

The paper leaves the sizes open. These are PFLlib's, from which its setting stems: 5×5 convolutions without padding with
32 and 64 channels, 2×2 pooling.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model
from fedgrid.models.common.blocks import flat_convolutions
from fedgrid.models.common.norm import KINDS


class CNN(Model):
    source = "Huang et al., FedCoSR, Sec. V-A5; sizes from PFLlib"
    smallest = 16

    channels: int = hp(32, low=1, high=65_536)
    "Channels of the first convolution; the second has twice as many."
    norm: str = hp("none", choices=KINDS)
    "Normalisation behind each convolution."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        layers, inputs = flat_convolutions(shape, (self.channels, 2 * self.channels), 5, self.norm)
        return nn.Sequential(*layers, nn.Linear(inputs, self.features), nn.ReLU())
