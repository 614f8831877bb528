"""Which device computes."""

import torch

from fedgrid.errors import UserError


def chosen(wanted: str) -> torch.device:
    """The device of a setting: ``auto`` is a CUDA GPU where there is one; UserError for a GPU that is not there."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    elif wanted.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"device: '{wanted}' was asked for, but torch sees no GPU here")
    return torch.device(wanted)
