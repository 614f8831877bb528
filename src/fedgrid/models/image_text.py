"""FedSaC's networks for clients of two modalities: a CNN for images and a TextCNN for captions, with one head.

Both give k = 256 features to the same linear layer, so that heads of all clients can be compared and averaged. The
paper says "a CNN with four convolutional layers" and "a TextCNN with five convolutional layers" and no more. Here the
first has four blocks of (3×3 convolution, 2×2 max-pooling, ReLU). The second is Kim's TextCNN (EMNLP 2014), whose
convolutions lie side by side over the words' embeddings; they have the widths 1 to 5, and each gives its maximum over
the words. A layer to k features follows both. Embeddings are drawn like a linear layer's weights; padding is zeros.
"""

import torch
from torch import Tensor, nn

from fedgrid.components import hp
from fedgrid.models.base import Model
from fedgrid.models.common.blocks import flat_convolutions

BLOCKS = 4
WIDTHS = (1, 2, 3, 4, 5)


class ImageText(Model):
    title = "CNN and TextCNN"
    source = "Yan et al., FedSaC, Appendix B.2; sizes are this benchmark's"
    smallest = 2**BLOCKS
    modalities = ("visual", "textual")

    features: int = hp(256, low=1, high=65_536)
    "Width k of the representation z that both extractors give to the head."
    channels: int = hp(32, low=1, high=65_536)
    "Channels of the first convolution of images; each further one has twice as many."
    embedding: int = hp(128, low=1, high=65_536)
    "Width of a word's embedding."
    filters: int = hp(64, low=1, high=65_536)
    "Filters of each convolution of texts."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        layers, inputs = flat_convolutions(shape, [self.channels * 2**block for block in range(BLOCKS)], 3, padding=1)
        return nn.Sequential(*layers, nn.Linear(inputs, self.features), nn.ReLU())

    def extractors(self, shape: tuple[int, int, int], vocabulary: int) -> dict[str, nn.Module]:
        textual = TextCNN(vocabulary, self.embedding, self.filters, self.features)
        return {"extractor.visual": self.extractor(shape), "extractor.textual": textual}


class TextCNN(nn.Module):
    """From tokens [B, words], 0 where a text has ended, to z [B, features]; of several captions the first is read."""

    def __init__(self, vocabulary: int, embedding: int, filters: int, features: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding, filters, w, padding=w // 2) for w in WIDTHS)
        self.last = nn.Linear(filters * len(WIDTHS), features)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens[:, 0] if tokens.dim() == 3 else tokens
        embedded = (self.embedding(tokens) * (tokens > 0).unsqueeze(-1)).transpose(1, 2)
        strongest = [convolution(embedded).amax(dim=2) for convolution in self.convolutions]
        z: Tensor = self.last(torch.cat(strongest, dim=1).relu())
        return z.relu()
