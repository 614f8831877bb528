"""The two-block CNN of FedCoSR: twice (convolution, ReLU, max-pooling), then one layer to k features | classes.

The paper leaves the sizes open. These are PFLlib's, from which its setting stems: 5×5 convolutions without padding with
32 and 64 channels, 2×2 pooling.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model
from fedgrid.models.norm import KINDS, norm


class CNN(Model):
    source = "Huang et al., FedCoSR, Sec. V-A5; sizes from PFLlib"
    smallest = 16

    channels: int = hp(32, low=1)
    "Channels of the first convolution; the second has twice as many."
    norm: str = hp("none", choices=KINDS)
    "Normalisation behind each convolution."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        height, width, colours = shape
        left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        # ReLU and max-pooling commute, bit for bit; pooling first leaves a quarter of the numbers to the ReLU
        wide = 2 * self.channels
        first = [nn.Conv2d(colours, self.channels, 5), *norm(self.norm, self.channels), nn.MaxPool2d(2), nn.ReLU()]
        second = [nn.Conv2d(self.channels, wide, 5), *norm(self.norm, wide), nn.MaxPool2d(2), nn.ReLU()]
        last = [nn.Linear(wide * left[0] * left[1], self.features), nn.ReLU()]
        return nn.Sequential(*first, *second, nn.Flatten(), *last)
