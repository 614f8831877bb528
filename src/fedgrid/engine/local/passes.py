"""Passes without gradient over the images of clients that share calls, planned on the processor.

On a processor clients share a call only where they have as many images left, so that nobody computes in vain. On a GPU
a call costs more than the images in it: there clients whose numbers of images lie within a factor of four share one,
and the images of the smaller ones are filled up, with images that do not count.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.local.devices import selection, sent
from fedgrid.engine.local.task import LocalTask


class Levels(NamedTuple):
    """Clients with up to `few` images share calls, and those with up to `factor` times as many, and so on."""

    few: int
    factor: int


COARSE, FINE = Levels(64, 4), Levels(16, 2)
"With few calls, and with few images that only fill up, where a call costs nothing: as part of a graph."


@dataclass(frozen=True)
class Piece:
    """Images [k, B] of k clients."""

    members: Tensor
    "Which of the pass's clients these are [k]."
    rows: slice | Tensor
    "The same as rows of the task's stacks."
    index: Tensor
    "Images [k, B] as `ClientData.batch` takes them."
    counted: Tensor | None = None
    "Truth values [k, B], False for images that only fill up; None: all count."
    sizes: Sequence[tuple[int, int]] = ()
    "Of a filled piece, each client's position in the task and its number of images that count."


def exact(task: LocalTask, positions: Sequence[int], largest: int) -> list[Piece]:
    """Every client's images in pieces of falling size, each size the half of the one before; at most `largest`."""
    lists = [task.images[task.ids[position]] for position in positions]
    pieces = list(_halved(lists, largest))
    members = sent([np.array(rows) for rows, _ in pieces], task.data.labels.device)
    return [Piece(some, some + positions[0], index) for some, (_, index) in zip(members, pieces, strict=True)]


def _halved(lists: Sequence[Tensor], largest: int) -> Iterator[tuple[list[int], Tensor]]:
    """(rows [k], images [k, size])."""
    size, start = 1 << (max(1, largest).bit_length() - 1), [0] * len(lists)
    while size:
        members = [row for row, images in enumerate(lists) if len(images) - start[row] >= size]
        if members:
            yield members, torch.stack([lists[row][start[row] : start[row] + size] for row in members])
        for row in members:
            start[row] += size
        if not members:
            size //= 2


def filled(task: LocalTask, positions: Sequence[int], largest: int, levels: Levels = COARSE) -> list[Piece]:
    """Images of clients with similar numbers of them, together; all calls together have room for `largest` of each."""
    sizes = np.array([len(task.images[client]) for client in task.ids])
    starts, device = np.cumsum(sizes) - sizes, task.data.labels.device
    plan = list(_similar(sizes[positions], largest * len(positions), task.batch_size, levels))
    members = [np.array(positions)[some] for some, _ in plan]
    valid = [columns < sizes[some][:, None] for some, (_, columns) in zip(members, plan, strict=True)]
    places = [
        starts[some][:, None] + np.minimum(columns, sizes[some][:, None] - 1)
        for some, (_, columns) in zip(members, plan, strict=True)
    ]
    on_device = sent([*(some for some, _ in plan), *places, *valid], device)
    pieces = []
    for number, (some, where, counts) in enumerate(zip(members, on_device, valid, strict=False)):
        index = task.pool[on_device[len(plan) + number]]
        counted = None if counts.all() else on_device[2 * len(plan) + number].bool()
        owned = list(zip(some.tolist(), counts.sum(axis=1).tolist(), strict=True))
        pieces.append(Piece(where, selection(some, device), index, counted, owned))
    return pieces


def _similar(sizes: np.ndarray, room: int, longest: int, levels: Levels) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows [k], columns [B]): rows with similar sizes, and which of their images a call takes."""
    few, factor = levels
    level_of = np.array([math.ceil(math.log(max(size, few) / few, factor) - 1e-9) for size in sizes])
    for level in np.unique(level_of):
        members = np.flatnonzero((level_of == level) & (sizes > 0))
        start = 0
        while len(members):
            end = min(start + min(longest, max(1, room // len(members))), int(sizes[members].max()))
            yield members, np.arange(start, end)
            members, start = members[sizes[members] > end], end
