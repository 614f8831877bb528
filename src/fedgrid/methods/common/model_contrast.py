"""MOON's contrast of a representation with two other models, which FedSSC uses too."""

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from fedgrid.methods import LossContext, cross_entropy


def model_contrast(z: Tensor, x: Tensor, at: LossContext, temperature: float) -> Tensor:
    """MOON's contrast of representations z [B, k] of images x: near the server's model, far from the client's previous.

    The mean (scalar) of −log[e^{s_g/τ} / (e^{s_g/τ} + e^{s_p/τ})] (Li, He & Song, CVPR 2021, Eq. 3), with s_g, s_p the
    cosines of z with the representations under ``at.server.theta`` and ``at.client.previous``, in evaluation mode.
    """
    others = [at.model.evaluating().features(model, x) for model in (at.server.theta, at.client.previous)]
    similarity = torch.stack([cosine_similarity(z, other) for other in others], dim=1)
    return cross_entropy(similarity / temperature, torch.zeros(len(x), dtype=torch.long, device=x.device))
