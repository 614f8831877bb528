"""fastText's classifier: the average of a text's word vectors | classes.

z is the average over the words that a text has, padding left out: the hidden variable of Joulin et al., Sec. 2. A text
without words is the zero vector. The paper's n-grams, hashing trick and hierarchical softmax are left out.
"""

from torch import Tensor, nn

from fedgrid.components import hp
from fedgrid.models.base import TextModel
from fedgrid.models.common.texts import averaged, held


class FastText(TextModel):
    title = "fastText"
    source = "Joulin, Grave, Bojanowski & Mikolov, Bag of Tricks for Efficient Text Classification, EACL 2017, Sec. 2"

    features: int = hp(64, low=1, high=65_536)
    "Width k of a word's vector, and so of the representation z."

    def encoder(self, length: int, vocabulary: int) -> nn.Module:
        return AverageOfWords(vocabulary, self.features)


class AverageOfWords(nn.Module):
    """From tokens [B, words], 0 where a text has ended, to the average of their vectors [B, width]."""

    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return averaged(self.embedding(tokens), held(tokens))
