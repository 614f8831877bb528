"""The loss that is cross entropy unless a method says otherwise."""

from torch import Tensor
from torch.nn.functional import cross_entropy as torch_cross_entropy


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of logits [B, C] against labels [B]; 0 for a batch without samples."""
    return torch_cross_entropy(logits, labels, reduction="sum") / max(1, len(labels))
