"""Losses that several methods share."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity
from torch.nn.functional import cross_entropy as torch_cross_entropy

if TYPE_CHECKING:
    from fedgrid.engine.method import At


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of logits [B, C] against labels [B]; 0 for a batch without samples."""
    return torch_cross_entropy(logits, labels, reduction="sum") / max(1, len(labels))


def model_contrast(z: Tensor, x: Tensor, at: "At", temperature: float) -> Tensor:
    """MOON's contrast of representations z [B, k] of images x: near the server's model, far from the client's previous.

    The mean of −log[e^{s_g/τ} / (e^{s_g/τ} + e^{s_p/τ})], with s_g, s_p the cosines of z with the representations under
    ``at.server.theta`` and ``at.client.previous``, both in evaluation mode.
    """
    others = [at.model.evaluating().features(model, x) for model in (at.server.theta, at.client.previous)]
    similarity = torch.stack([cosine_similarity(z, other) for other in others], dim=1)
    return cross_entropy(similarity / temperature, torch.zeros(len(x), dtype=torch.long, device=x.device))
