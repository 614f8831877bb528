"""Which clients of a stack share a call, batch after batch: planned on the processor, sent to the device in one copy.

Clients of unequal size need no masks. In an epoch, full batches come first: clients are sorted by their number, so that
at step s those that still have one are the first k_s rows. Then come the last, smaller batches, all those of one size
together. A client's own batches keep their order, and nothing that a client does depends on another.
"""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from fedgrid.engine.local.devices import flat, sent
from fedgrid.engine.local.task import LocalTask

NOBODY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class PlannedGroup:
    """A `Group` on the processor: all clients by their rows, and places in `LocalTask.pool` for images."""

    rows: np.ndarray
    index: list[np.ndarray]
    keys: np.ndarray
    opened: np.ndarray


@dataclass(frozen=True)
class Group:
    """Clients that are at a batch of the same size, or at a step of several batches of the same sizes."""

    rows: slice | Tensor
    index: list[Tensor]
    "Images of each client's batch [k, B], for every batch of the step."
    keys: Tensor
    "Where the random numbers of each client's step start [k]."
    opened: slice | Tensor | None
    "Clients for whom an epoch begins, with this group or with a later one."


def groups(task: LocalTask, positions: Sequence[int]) -> tuple[Tensor, list[Group]]:
    """The rows of a stack, as positions [n] among a task's clients, and all that these clients do."""
    order, plan = planned(task, positions)
    index = [places for group in plan for places in group.index]
    others = [array for group in plan for array in (group.rows, group.keys, group.opened)]
    where, places, *sent_arrays = sent([order, flat(index), *others], task.data.labels.device)
    images, parts = task.images_at(places, index), iter(sent_arrays)

    def moved(group: PlannedGroup) -> Group:
        rows, keys, opened = next(parts), next(parts), next(parts)
        begins = _first(group.opened, opened) if len(group.opened) else None
        return Group(_first(group.rows, rows), [next(images) for _ in group.index], keys, begins)

    return where, [moved(group) for group in plan]


def planned(task: LocalTask, positions: Sequence[int]) -> tuple[np.ndarray, list[PlannedGroup]]:
    """The same on the processor."""
    order = sorted(positions, key=lambda p: -(len(task.images[task.ids[p]]) // task.batch_size))
    ids = [task.ids[position] for position in order]
    return np.array(order), list(_single(task, ids) if task.together == 1 else _several(task, ids))


def _first(rows: np.ndarray, on_device: Tensor) -> slice | Tensor:
    """Rows as a slice where they are the first ones, whose stack is then a view."""
    return slice(len(rows)) if rows[-1] < len(rows) else on_device


def _single(task: LocalTask, clients: Sequence[int]) -> Iterator[PlannedGroup]:
    """Steps of one batch each, all epochs."""
    for epoch in range(max(map(task.epochs_of, clients))):
        orders = [task.places(client, epoch) for client in clients]
        opened = np.flatnonzero([len(order) for order in orders])
        for group in of_one_epoch(orders, task.batch_size, np.array([task.key(client, epoch) for client in clients])):
            yield replace(group, opened=opened)
            opened = NOBODY


def of_one_epoch(orders: Sequence[np.ndarray], size: int, keys: np.ndarray) -> Iterator[PlannedGroup]:
    """The batches of one epoch, in which every client has an order of images and a key for its first batch."""
    full = np.array([len(order) // size for order in orders])
    for step in range(full.max()):
        still = np.flatnonzero(full > step)
        index = np.stack([orders[row][step * size : (step + 1) * size] for row in still.tolist()])
        yield PlannedGroup(still, [index], keys[still] + step, NOBODY)
    remaining = np.array([len(order) % size for order in orders])
    for size_of_last in np.unique(remaining[remaining > 0]):
        members = np.flatnonzero(remaining == size_of_last)
        index = np.stack([orders[row][-size_of_last:] for row in members.tolist()])
        yield PlannedGroup(members, [index], keys[members] + full[members], NOBODY)


def _several(task: LocalTask, clients: Sequence[int]) -> Iterator[PlannedGroup]:
    """Steps of several consecutive batches each, which may lie in two epochs; left-over batches are not used."""
    together = task.together
    batches_of_clients = [
        [keyed for epoch in range(task.epochs_of(i)) for keyed in task.batches(i, epoch)] for i in clients
    ]
    for start in range(0, max(map(len, batches_of_clients)), together):
        alike: dict[tuple[int, ...], list[int]] = {}
        for row, batches in enumerate(batches_of_clients):
            if start + together <= len(batches):
                sizes = tuple(len(places) for _, places in batches[start : start + together])
                alike.setdefault(sizes, []).append(row)
        for members in alike.values():
            index = [
                np.stack([batches_of_clients[row][start + number][1] for row in members]) for number in range(together)
            ]
            yield PlannedGroup(
                np.array(members), index, np.array([batches_of_clients[row][start][0] for row in members]), NOBODY
            )


def batches_per_call(images: Sequence[Sized], size: int) -> float:
    """How many clients' batches of `size` a call serves on average, when clients with these images train together."""
    full = max(len(index) // size for index in images)
    calls = full + len({len(index) % size for index in images} - {0})
    return sum(-(-len(index) // size) for index in images) / max(1, calls)
