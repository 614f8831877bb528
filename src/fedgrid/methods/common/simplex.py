"""Euclidean projection onto the simplex, and the programmes that it solves in closed form."""

import torch
from torch import Tensor


def project(points: Tensor) -> Tensor:
    """The nearest w ≥ 0 with Σ w = 1 for every row of `points` […, n]; float64.

    With u the sorted entries and ρ the last r for which u_r > (Σ_{s≤r} u_s − 1)/r, w = max(v − σ, 0), where σ is that
    bound at ρ (Held, Wolfe & Crowder, 1974).
    """
    points = points.double()
    points = points - points.max(dim=-1, keepdim=True).values  # changes nothing; keeps digits where entries are large
    sorted_ = points.sort(dim=-1, descending=True).values
    number = torch.arange(1, points.shape[-1] + 1, device=points.device)
    excess = sorted_.cumsum(dim=-1) - 1
    last = (sorted_ * number > excess).sum(dim=-1, keepdim=True)
    return (points - excess.gather(-1, last - 1) / last).clamp(min=0)


def minimum(curvature: float, slope: Tensor) -> Tensor:
    """The w [n] in the simplex that minimises curvature·‖w‖² + slopeᵀw, for every row of `slope` [m, n]; float64."""
    return project(-slope.double() / (2 * curvature))
