"""Which device computes, what it is, and what is copied to it and from it in one copy, since each makes a GPU wait."""

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedgrid.errors import UserError


def chosen(wanted: str) -> torch.device:
    """The device of a setting: ``auto`` is a CUDA GPU where there is one; UserError for a GPU that is not there."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    elif wanted.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"device: '{wanted}' was requested, but torch sees no GPU")
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


def flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The numbers of all arrays, one after the other."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *(array.ravel() for array in arrays)])


def sent(arrays: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """Arrays of whole numbers on the device, in one copy."""
    parts = torch.from_numpy(flat(arrays)).to(device).split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def selection(numbers: np.ndarray, device: torch.device) -> Tensor | slice:
    """What chooses the rows `numbers` [n] of a stack: a slice where they follow each other, since it copies nothing."""
    if not len(numbers):
        return slice(0)
    if (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return torch.from_numpy(numbers).to(device)


def fetched(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of one shape on the processor, as float64, in one copy."""
    return list(torch.stack([t.double() for t in tensors]).cpu())
