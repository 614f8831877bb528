"""Randomness as a function of names.

Every random draw of fedgrid is a function of what it is for: purpose, seed, client, round, epoch. There is no global
generator and no state to save, so a draw depends neither on what was drawn before it, nor on the order of clients, nor
on where a run was interrupted.

`generator` serves the processor; `uniform` serves what happens inside a batch, where clients may be trained together
and on any device: it is integer arithmetic on tensors and gives the same numbers everywhere.
"""

import hashlib
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
"Increment of splitmix64 (Steele, Lea & Flood, OOPSLA 2014): 2^64 over the golden ratio."


def generator(purpose: str, *key: int | str) -> np.random.Generator:
    """The generator of one purpose, such as ``generator("batches", seed, client, round, epoch)``."""
    return np.random.Generator(np.random.Philox(key=_hashed("|".join([purpose, *map(str, key)]))))


def uniform(key: "int | Tensor", purpose: str, like: "Tensor") -> "Tensor":
    """Numbers in [0, 1), multiples of 2⁻²⁴, in the shape, type and place of `like`.

    They are the outputs of splitmix64 that starts from a hash of `purpose` and of `key`, a 64-bit integer (or a tensor
    that holds one, under `torch.vmap`).
    """
    import torch

    start = _mixed(torch.as_tensor(key, device=like.device) + _salt(purpose))
    counter = torch.arange(1, like.numel() + 1, device=like.device) * _signed(GOLDEN)
    return (((_mixed(start + counter) >> 40) & 0xFFFFFF).to(like.dtype) / 2**24).reshape(like.shape)


def _mixed(x: "Tensor") -> "Tensor":
    """The output function of splitmix64, on 64-bit integers that overflow as they do in hardware."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ _shifted(x, shift)) * _signed(factor)
    return x ^ _shifted(x, 31)


def _shifted(x: "Tensor", places: int) -> "Tensor":
    """Shifted right with zeros moving in; tensors have signed integers only, whose sign moves in by itself."""
    return (x >> places) & ((1 << (64 - places)) - 1)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


@cache
def _salt(purpose: str) -> int:
    return int(_hashed(purpose)[0]) >> 1


def _hashed(text: str) -> np.ndarray:
    return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=16).digest(), dtype="<u8")
