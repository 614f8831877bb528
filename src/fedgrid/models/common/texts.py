"""What models of texts share: which tokens are words, and averages over these."""

from torch import Tensor


def held(tokens: Tensor) -> Tensor:
    """Whether a text has a word there, bool [B, words]: 0 fills up."""
    return tokens > 0


def averaged(vectors: Tensor, words: Tensor) -> Tensor:
    """The average [B, width] of `vectors` [B, words, width] at a text's `words` [B, words]; zeros without any."""
    counted = words.unsqueeze(-1).to(vectors.dtype)
    average: Tensor = (vectors * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
    return average
