"""A plain CNN: blocks of (3×3 convolution, ReLU, 2×2 max-pooling), then one layer to k = 128 features | classes.

FedCCL's "4-layer CNN" for MNIST and Fashion-MNIST has two blocks, its "5-layer CNN" for CIFAR-10 three, if its
decision-making layers of dimension 128 are the last two. It says nothing of channels, kernels and pooling: those here
are this benchmark's choice.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.errors import UserError
from fedgrid.models.base import Model
from fedgrid.models.common.blocks import flat_convolutions
from fedgrid.models.common.norm import KINDS


class ConvNet(Model):
    source = "Qiao et al., FedCCL, Sec. 5.1; sizes are this benchmark's"
    smallest = 4

    blocks: int = hp(2, low=1, high=6)
    "Convolutions; with the two layers behind them, FedCCL's 4-layer CNN has 2, its 5-layer CNN has 3."
    channels: int = hp(32, low=1, high=65_536)
    "Channels of the first convolution; each further one has twice as many."
    norm: str = hp("none", choices=KINDS)
    "Normalisation behind each convolution."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        if min(shape[:2]) < 2**self.blocks:
            raise UserError(f"model: {self.blocks} blocks of ConvNet need images of at least {2**self.blocks} pixels")
        channels = [self.channels * 2**block for block in range(self.blocks)]
        layers, inputs = flat_convolutions(shape, channels, 3, self.norm, padding=1)
        return nn.Sequential(*layers, nn.Linear(inputs, self.features), nn.ReLU())
