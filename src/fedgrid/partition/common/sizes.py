"""Integer sizes in closed form: shares into whole numbers, and a smallest size that every client reaches."""

import numpy as np

from fedgrid.errors import UserError


def apportioned(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers [n] that add up to `total`, in proportion to `shares` [n] ≥ 0, each off by less than 1."""
    cuts = np.round(np.cumsum(shares) / shares.sum() * total).astype(np.int64)
    return np.diff(cuts, prepend=0)


def levelled(sizes: np.ndarray, least: int) -> np.ndarray:
    """Sizes [n] with the same sum and none below `least`: what the poor lack is cut off the largest, level by level.

    The sum must be at least n·`least`. A size above `least` never falls below it and no two sizes change their order.
    """
    missing = int(np.maximum(least - sizes, 0).sum())
    cut = np.array([np.maximum(sizes - level, 0).sum() for level in _levels(sizes, missing)])
    level = _levels(sizes, missing)[np.flatnonzero(cut >= missing).max()]
    rich = np.flatnonzero(sizes > level)
    levelled_sizes: np.ndarray = np.maximum(np.minimum(sizes, level), least)
    # cutting down to a whole level may take a few images too many: they stay with those who had most
    spare = int(np.maximum(sizes - level, 0).sum()) - missing
    levelled_sizes[rich[np.argsort(-sizes[rich], kind="stable")][:spare]] += 1
    return levelled_sizes


def check_least(clients: int, least: int, images: int) -> None:
    """Raises UserError where `clients` cannot hold `least` images each."""
    if clients * least > images:
        raise UserError(
            f"partition.min_samples: {clients} clients with at least {least} images each need {clients * least} "
            f"images, there are {images}; at most {images // clients} each, or {images // least} clients, are possible"
        )


def _levels(sizes: np.ndarray, missing: int) -> np.ndarray:
    """Two neighbouring whole levels between which the cut that yields `missing` lies."""
    ordered = np.sort(sizes)[::-1]
    number = np.arange(1, len(ordered) + 1)
    level = np.floor((np.cumsum(ordered) - missing) / number).astype(np.int64)
    return np.array([level.max(), level.max() + 1])


def repaired(owner: np.ndarray, clients: int, least: int, random: np.random.Generator) -> np.ndarray:
    """Owners [n] with which every client holds at least `least` images; random images of the largest clients move."""
    held = np.bincount(owner, minlength=clients)
    if held.min() >= least:
        return owner
    target = levelled(held, least)
    order = random.permutation(len(owner))
    order = order[np.argsort(owner[order], kind="stable")]  # client by client, in random order
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(held) - held, held)
    moved = order[rank >= target[owner[order]]]
    owner = owner.copy()
    owner[random.permutation(moved)] = np.repeat(np.arange(clients), np.maximum(target - held, 0))
    return owner
