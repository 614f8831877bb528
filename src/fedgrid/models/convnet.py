"""A plain CNN: blocks of (3×3 convolution, ReLU, 2×2 max-pooling), then one layer to k = 128 features | classes.

FedCCL's "4-layer CNN" for MNIST and Fashion-MNIST has two blocks, its "5-layer CNN" for CIFAR-10 three, if its
decision-making layers of dimension 128 are the last two. It says nothing of channels, kernels and pooling: those here
are this benchmark's choice.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.errors import UserError
from fedgrid.models.base import Model
from fedgrid.models.common.blocks import pooled_convolution
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
        *sides, inputs = shape
        sides_left = [side // 2**self.blocks for side in sides]
        if not all(sides_left):
            raise UserError(f"model: {self.blocks} blocks of ConvNet need images of at least {2**self.blocks} pixels")
        layers = []
        for block in range(self.blocks):
            wide = self.channels * 2**block
            layers += pooled_convolution(inputs, wide, 3, self.norm, padding=1)
            inputs = wide
        return nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(inputs * sides_left[0] * sides_left[1], self.features), nn.ReLU()
        )
