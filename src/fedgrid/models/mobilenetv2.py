"""MobileNetV2: inverted residuals with linear bottlenecks, average pooling | classes.

A block widens its input by a factor with a 1×1 convolution, filters each channel by itself (3×3) and narrows the result
with another 1×1 convolution, which no ReLU follows; where the size stays, the input is added. The stages are those of
the paper's Table 2. It is for images of 224×224; for small ones the first convolution has stride 1 here.
"""

from torch import nn

from fedgrid.components import hp
from fedgrid.errors import UserError
from fedgrid.models.base import Model
from fedgrid.models.common.norm import KINDS
from fedgrid.models.common.residual import Residual, convolution, pooled_features

STEM, LAST = 32, 1_280
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"Table 2: factor t, channels c, blocks n, stride s of the first block."


class MobileNetV2(Model):
    title = "MobileNetV2"
    source = "Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018, Table 2"
    smallest = 8

    features: int = hp(1_280, low=1, high=65_536)
    "Width k of the representation; where it is not that of the last convolution (1280), one more layer leads to it."
    multiplier: float = hp(1.0, low=0.25, high=4)
    "By which the channels of all layers are multiplied; the last convolution never has fewer than 1280."
    stride: int = hp(1, choices=(1, 2))
    "Stride of the first convolution; 2 in the paper."
    norm: str = hp("group", choices=KINDS)
    "Normalisation behind each convolution; batch in the paper."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        if min(shape[:2]) < self.smallest * self.stride:
            side = self.smallest * self.stride
            raise UserError(f"model.stride: {self.stride} needs images of at least {side}×{side}")
        inputs, last = self._wide(STEM), _rounded(LAST * max(1.0, self.multiplier))
        layers = convolution(shape[2], inputs, 3, self.norm, self.stride, then=nn.ReLU6)
        for factor, channels, blocks, stride in STAGES:
            for block in range(blocks):
                layers.append(_block(inputs, self._wide(channels), factor, 1 if block else stride, self.norm))
                inputs = self._wide(channels)
        layers += convolution(inputs, last, 1, self.norm, then=nn.ReLU6)
        return nn.Sequential(*layers, *pooled_features(last, self.features))

    def _wide(self, channels: int) -> int:
        return _rounded(channels * self.multiplier)


def _block(inputs: int, outputs: int, factor: int, stride: int, kind: str) -> nn.Module:
    wide = inputs * factor
    layers = convolution(inputs, wide, 1, kind, then=nn.ReLU6) if factor > 1 else []
    layers += convolution(wide, wide, 3, kind, stride, groups=wide, then=nn.ReLU6)
    layers += convolution(wide, outputs, 1, kind)
    return Residual(layers) if stride == 1 and inputs == outputs else nn.Sequential(*layers)


def _rounded(channels: float) -> int:
    """The nearest multiple of 8, or the next one where that would be less than nine tenths; 8 at least."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8
