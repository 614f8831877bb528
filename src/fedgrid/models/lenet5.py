"""LeNet-5 with ReLU: twice (5×5 convolution, ReLU, max-pooling), then layers of 120 and of k = 84 features | classes.

The "two convolutional and two fully connected layers, a final classification layer" of FedSaC with its representation
of 84 numbers, whose sizes its code and pFedGraph's have. With `projection: 256` it is the encoder and projection head
of MOON, whose setting FedSSC follows.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model
from fedgrid.models.common.blocks import pooled_convolution

PLANES = 6, 16
WIDTH = 120


class LeNet5(Model):
    title = "LeNet-5"
    source = "Yan et al., FedSaC, Appendix B.1; sizes from pFedGraph's and MOON's codes"
    smallest = 16

    features: int = hp(84, low=1, high=65_536)
    "Width k of the representation z that the extractor gives to the head."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        height, width, colours = shape
        sides_left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        convolutions, inputs = [], colours
        for outputs in PLANES:
            convolutions += pooled_convolution(inputs, outputs, 5)
            inputs = outputs
        first = [nn.Linear(inputs * sides_left[0] * sides_left[1], WIDTH), nn.ReLU()]
        return nn.Sequential(*convolutions, nn.Flatten(), *first, nn.Linear(WIDTH, self.features), nn.ReLU())
