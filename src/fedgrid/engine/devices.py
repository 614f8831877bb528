"""Which device computes, and what it is."""

import time

import torch

from fedgrid.errors import UserError


def chosen(wanted: str) -> torch.device:
    """The device of a setting: ``auto`` is a CUDA GPU where there is one; UserError for a GPU that is not there."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    elif wanted.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"device: '{wanted}' was asked for, but torch sees no GPU here")
    return torch.device(wanted)


def name_of(device: torch.device) -> str:
    """The name of a GPU's model; ``cpu`` for the processor."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def peak_memory(device: torch.device) -> int:
    """Most bytes of a GPU's own memory that this process has held; 0 for the processor."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def now(device: torch.device) -> float:
    """Seconds, once all that was started is done: a GPU's kernels run behind the program."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
