"""ResNet-8: a 3×3 convolution, three stages of one basic block (16, 32, 64 channels), average pooling | classes.

The smallest of the paper's networks of 6n + 2 layers for CIFAR-10, n = 1. Where a stage changes the width, the shortcut
is a 1×1 convolution (option B); on CIFAR-10 the paper fills up with zeros instead (option A). Group norm is the
default: batch norm's statistics of few images of few classes differ from client to client.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model
from fedgrid.models.common.norm import KINDS
from fedgrid.models.common.residual import basic_extractor

BLOCKS = (1, 1, 1)


class ResNet8(Model):
    title = "ResNet-8"
    source = "He et al., Deep Residual Learning for Image Recognition, CVPR 2016, Sec. 4.2"
    smallest = 4

    features: int = hp(64, low=1, high=65_536)
    "Width k of the representation; where it is not that of the last stage (64), one more layer leads to it."
    channels: int = hp(16, low=4, high=4_096)
    "Channels of the first stage; each further one has twice as many."
    norm: str = hp("group", choices=KINDS)
    "Normalisation behind each convolution; batch in the paper."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        return basic_extractor(shape[2], self.channels, BLOCKS, self.norm, self.features)
