"""What travels between the server and its clients, in bytes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedgrid.tree import leaves


@dataclass
class Traffic:
    """Bytes that each client sent (`up`) and received (`down`), float64 [N]."""

    up: Tensor
    down: Tensor

    @classmethod
    def none(cls, clients: int, device: torch.device) -> "Traffic":
        """No bytes yet, for every client."""
        return cls(*torch.zeros(2, clients, dtype=torch.float64, device=device))


def bytes_of(stack: Any, mask: Tensor | None) -> Tensor | float:
    """Bytes of every row [n], or one number where nothing is masked; a masked entry covers everything behind it."""
    if mask is None:
        return float(sum(t[0].numel() * t.element_size() for t in leaves(stack)))
    sent = mask.flatten(1).sum(dim=1).double()
    return sum(sent * (t[0].numel() // mask[0].numel() * t.element_size()) for t in leaves(stack))
