"""LeNet-5 with ReLU: twice (5×5 convolution, ReLU, max-pooling), then layers of 120 and of k = 84 features | classes.

The "two convolutional and two fully connected layers, a final classification layer" of FedSaC with its representation
of 84 numbers, whose sizes its code and pFedGraph's have. With `projection: 256` it is the encoder and projection head
of MOON, whose setting FedSSC follows.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.models.base import Model
from fedgrid.models.common.blocks import flat_convolutions

PLANES = 6, 16
WIDTH = 120


class LeNet5(Model):
    title = "LeNet-5"
    source = "Yan et al., FedSaC, Appendix B.1; sizes from pFedGraph's and MOON's codes"
    smallest = 16

    features: int = hp(84, low=1, high=65_536)
    "Width k of the representation z that the extractor gives to the head."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        layers, inputs = flat_convolutions(shape, PLANES, 5)
        widths = nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, self.features), nn.ReLU()
        return nn.Sequential(*layers, *widths)
