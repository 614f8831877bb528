"""Randomness as a function of names.

Every random draw of fedgrid comes from a counter-based generator (Philox) whose key is a hash of what the draw is for:
purpose, seed, client, round, epoch. There is no global generator and no state to save, so a draw depends neither on
what was drawn before it, nor on the order of clients, nor on where a run was interrupted.
"""

import hashlib

import numpy as np


def generator(purpose: str, *key: int | str) -> np.random.Generator:
    """The generator of one purpose, such as ``generator("batches", seed, client, round, epoch)``."""
    text = "|".join([purpose, *map(str, key)])
    words = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=16).digest(), dtype="<u8")
    return np.random.Generator(np.random.Philox(key=words))
