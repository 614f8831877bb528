"""Residual networks for small images: what ResNets and MobileNetV2 share."""

from collections.abc import Sequence

from torch import Tensor, nn

from fedgrid.models.common.norm import norm


def convolution(
    inputs: int,
    outputs: int,
    side: int,
    kind: str,
    stride: int = 1,
    groups: int = 1,
    then: type[nn.Module] | None = None,
) -> list[nn.Module]:
    """A `side`×`side` convolution that keeps the size but for its stride, normalisation of a `kind`, and `then`.

    The convolution has a bias only where nothing is normalised.
    """
    layer = nn.Conv2d(inputs, outputs, side, stride, side // 2, groups=groups, bias=kind == "none")
    return [layer, *norm(kind, outputs), *([then()] if then else [])]


class Residual(nn.Module):
    """The sum of what a branch and a shortcut make of x, and ReLU where it is `rectified`."""

    def __init__(self, branch: Sequence[nn.Module], shortcut: Sequence[nn.Module] = (), rectified: bool = False):
        super().__init__()
        self.branch, self.shortcut, self.rectified = nn.Sequential(*branch), nn.Sequential(*shortcut), rectified

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.branch(x) + self.shortcut(x)
        return y.relu() if self.rectified else y


def basic_block(inputs: int, outputs: int, stride: int, kind: str) -> Residual:
    """Two 3×3 convolutions; the shortcut is a 1×1 convolution where the size or the width changes (option B)."""
    branch = convolution(inputs, outputs, 3, kind, stride, then=nn.ReLU) + convolution(outputs, outputs, 3, kind)
    changes = stride > 1 or inputs != outputs
    return Residual(branch, convolution(inputs, outputs, 1, kind, stride) if changes else (), rectified=True)


def basic_extractor(colours: int, channels: int, blocks: Sequence[int], kind: str, features: int) -> nn.Sequential:
    """A 3×3 convolution to `channels`, a stage for each number of `blocks`, and the average of what they give.

    Every stage but the first halves height and width and doubles the channels.
    """
    layers, inputs = convolution(colours, channels, 3, kind, then=nn.ReLU), channels
    for stage, count in enumerate(blocks):
        outputs = channels * 2**stage
        for block in range(count):
            layers.append(basic_block(inputs, outputs, 2 if stage and not block else 1, kind))
            inputs = outputs
    return nn.Sequential(*layers, *pooled_features(inputs, features))


def pooled_features(width: int, features: int) -> list[nn.Module]:
    """The average of each of `width` channels, and a layer to `features` numbers where these are not as many."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *resized_features(width, features)]


def resized_features(width: int, features: int) -> list[nn.Module]:
    """Nothing where `width` numbers are the features, else a linear layer to `features` numbers and ReLU."""
    return [] if width == features else [nn.Linear(width, features), nn.ReLU()]
