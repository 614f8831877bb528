"""ResNet-18 for small images: a 3×3 convolution and four stages of two basic blocks, average pooling | classes.

The stages are those of the paper's Table 1, with 64 to 512 channels. Its stem for ImageNet, a 7×7 convolution of stride
2 and max-pooling, would leave little of a small image; that of Sec. 4.2 for CIFAR-10, one 3×3 convolution, stands in
its place. Group norm is the default: batch norm's statistics of few images of few classes differ from client to client.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model
from fedgrid.models.common.norm import KINDS
from fedgrid.models.common.residual import basic_extractor

BLOCKS = (2, 2, 2, 2)


class ResNet18(Model):
    title = "ResNet-18"
    source = "He et al., Deep Residual Learning for Image Recognition, CVPR 2016, Table 1 and Sec. 4.2"
    smallest = 8

    features: int = hp(512, low=1, high=65_536)
    "Width k of the representation; where it is not that of the last stage (512), one more layer leads to it."
    channels: int = hp(64, low=2, high=4_096)
    "Channels of the first stage; each further one has twice as many."
    norm: str = hp("group", choices=KINDS)
    "Normalisation behind each convolution; batch in the paper."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        return basic_extractor(shape[2], self.channels, BLOCKS, self.norm, self.features)
