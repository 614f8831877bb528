"""Attention among tokens, and numbers that are learned for their places."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softmax

EPSILON = 1e-6
"Of layer norms."


class Added(nn.Module):
    """Learned numbers [tokens, width]."""

    def __init__(self, tokens: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(tokens, width))


class Attention(nn.Module):
    """Self-attention of several heads among tokens [B, n, width], or among those of them that `held` [B, n] names."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, held: Tensor | None = None) -> Tensor:
        batch, tokens, width = x.shape
        split_in_heads = self.inputs(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = split_in_heads.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(2, 3) / (width // self.heads) ** 0.5
        if held is not None:  # not by minus infinity: a text without words would have no weights that are numbers
            scores = torch.where(held[:, None, None], scores, torch.finfo(scores.dtype).min)
        weights = softmax(scores, dim=3)
        y: Tensor = self.output((weights @ value).transpose(1, 2).reshape(batch, tokens, width))
        return y
