"""A small vision transformer: patches as tokens, blocks of attention and an MLP, the class token | classes.

The architecture is that of ViT (Eq. 1 to 4): patches are projected linearly, a class token and learned positions are
added, and every block normalises its input (layer norm), attends, normalises again and applies an MLP with GELU. The
paper's sizes are for images of 224×224; these are this benchmark's choice for small ones.
"""

import torch
from torch import Tensor, nn

from fedgrid.components import hp
from fedgrid.errors import UserError
from fedgrid.models.base import Model
from fedgrid.models.common.attention import EPSILON, Added, Attention
from fedgrid.models.common.residual import Residual, resized_features


class ViT(Model):
    title = "ViT"
    source = "Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021, Eq. 1 to 4; sizes are this benchmark's"
    smallest = 4

    patch: int = hp(4, low=1, high=64)
    "Height and width of a patch."
    width: int = hp(128, low=1, high=65_536)
    "Numbers of a token; where the features are not as many, one more layer leads to them."
    depth: int = hp(6, low=1, high=100)
    "Blocks."
    heads: int = hp(4, low=1, high=1_024)
    "Heads of attention, among which a token's numbers are divided."
    ratio: int = hp(4, low=1, high=64)
    "Width of the MLP's hidden layer, as a multiple of a token's."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        height, width, colours = shape
        patches = (height // self.patch) * (width // self.patch)
        if not patches:
            raise UserError(f"model.patch: patches of {self.patch}×{self.patch} do not fit images of {height}×{width}")
        if self.width % self.heads:
            raise UserError(f"model.heads: {self.heads} heads cannot share a width of {self.width}")
        blocks = [layer for _ in range(self.depth) for layer in self._block()]
        last = [nn.LayerNorm(self.width, EPSILON), *resized_features(self.width, self.features)]
        return nn.Sequential(Tokens(colours, self.patch, patches, self.width), *blocks, First(), *last)

    def _block(self) -> tuple[nn.Module, nn.Module]:
        hidden = self.ratio * self.width
        mlp = nn.Linear(self.width, hidden), nn.GELU(), nn.Linear(hidden, self.width)
        attention = nn.LayerNorm(self.width, EPSILON), Attention(self.width, self.heads)
        return Residual(attention), Residual((nn.LayerNorm(self.width, EPSILON), *mlp))


class Tokens(nn.Module):
    """Images [B, colours, height, width] as tokens [B, 1 + patches, width], the class token first."""

    def __init__(self, colours: int, patch: int, patches: int, width: int):
        super().__init__()
        self.first, self.positions = Added(1, width), Added(1 + patches, width)
        self.projection = nn.Conv2d(colours, width, patch, patch)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.projection(x).flatten(2).transpose(1, 2)
        first = self.first.weight.to(patches.dtype).expand(len(x), 1, -1)
        return torch.cat([first, patches], dim=1) + self.positions.weight


class First(nn.Module):
    """The first of the tokens [B, n, width]."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]
