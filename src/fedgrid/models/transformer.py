"""A small transformer encoder of texts: words and their places, blocks of attention and an MLP, averaged | classes.

Blocks are ViT's, with normalisation before each branch: attention of several heads, and an MLP with GELU, each added to
what it reads. Positions are learned. Padding is attended by nothing and is no part of the average, which
is normalised. Sizes are this benchmark's.
"""

from torch import Tensor, nn

from fedgrid.components import hp
from fedgrid.errors import UserError
from fedgrid.models.base import TextModel
from fedgrid.models.common.attention import EPSILON, Added, Attention
from fedgrid.models.common.residual import resized_features
from fedgrid.models.common.texts import averaged, held


class Transformer(TextModel):
    title = "Transformer"
    source = "Vaswani et al., Attention Is All You Need, NeurIPS 2017, Sec. 3; sizes are this benchmark's"

    features: int = hp(64, low=1, high=65_536)
    "Width k of the representation z; where a word's numbers are not as many, one more layer leads to them."
    width: int = hp(64, low=1, high=65_536)
    "Numbers of a word."
    depth: int = hp(2, low=1, high=100)
    "Blocks."
    heads: int = hp(4, low=1, high=1_024)
    "Heads of attention, among which a word's numbers are divided."
    ratio: int = hp(4, low=1, high=64)
    "Width of the MLP's hidden layer, as a multiple of a word's."

    def encoder(self, length: int, vocabulary: int) -> nn.Module:
        if self.width % self.heads:
            raise UserError(f"model.heads: {self.heads} heads cannot share a width of {self.width}")
        blocks = [Block(self.width, self.heads, self.ratio) for _ in range(self.depth)]
        encoder = Encoder(vocabulary, length, self.width, blocks)
        return nn.Sequential(encoder, *resized_features(self.width, self.features))


class Block(nn.Module):
    """Attention among a text's words, then an MLP at each, both added to vectors [B, words, width]."""

    def __init__(self, width: int, heads: int, ratio: int):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width, EPSILON), nn.LayerNorm(width, EPSILON)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, ratio * width), nn.GELU(), nn.Linear(ratio * width, width))

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        attended = x + self.attention(self.before_attention(x), words)
        both: Tensor = attended + self.mlp(self.before_mlp(attended))
        return both


class Encoder(nn.Module):
    """From tokens [B, words], 0 where a text has ended, to the average of its words' vectors [B, width]."""

    def __init__(self, vocabulary: int, length: int, width: int, blocks: list[Block]):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), Added(length, width)
        self.blocks, self.last = nn.ModuleList(blocks), nn.LayerNorm(width, EPSILON)

    def forward(self, tokens: Tensor) -> Tensor:
        words = held(tokens)
        x: Tensor = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, words)
        return averaged(self.last(x), words)
