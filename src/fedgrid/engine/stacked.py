"""The executor that trains all clients together: one call of a function for a whole stack of them.

Clients of unequal size need no masks. In an epoch, full batches come first: clients are sorted by their number, so that
at step s those that still have one are the first k_s rows. Then come the last, smaller batches, all those of one size
together. A client's own batches keep their order, and nothing that a client does depends on another.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fedgrid.engine.context import Batch, LossContext
from fedgrid.engine.executor import Executor, Trained, TrainingStats
from fedgrid.engine.solvers import Solver
from fedgrid.engine.task import Apply, LocalTask, Measurement
from fedgrid.errors import UserError
from fedgrid.tree import leaves, rebuilt, rows, tree_map

MEASURED_TOGETHER = {"cpu": 1024, "cuda": 16384}
"Images of all clients in one call of a pass without gradient."
BUDGET = 2**30
"Bytes for the clients that are trained together on a processor, where more gain nothing; a GPU gives half of its own."
COPIES, ACTIVATIONS = 6, 64
"Memory of a client in training: copies of its parameters, and numbers kept for every number of a batch of images."


@dataclass(frozen=True)
class Group:
    """Clients that are at a batch of the same size, or at a step of several batches of the same sizes."""

    rows: slice | Tensor
    index: list[Tensor]
    "Images of each client's batch [k, B], for every batch of the step."
    keys: Tensor
    "Where the random numbers of each client's step start [k]."


class Stacked(Executor):
    """All clients at once, or `chunk` at a time: best on a GPU, and where a step is mostly overhead."""

    def __init__(self, chunk: int | None = None):
        self.chunk = chunk
        # what has room; falls where a GPU turns out to have less
        self.clients = sys.maxsize
        self.images: int | None = None

    def _walk(self, task: LocalTask, solver: Solver) -> Trained:
        clients = len(task.ids)
        theta = tree_map(lambda t: t.new_empty(clients, *t.shape[1:]), task.theta)
        stats = TrainingStats(clients, task.data.labels.device)
        wanted, start = self.chunk or _fitting(task), 0
        while start < clients:
            positions = list(range(start, min(clients, start + min(wanted, self.clients))))
            try:
                _train(task, positions, solver, theta, stats)
            except torch.OutOfMemoryError as error:
                self.clients = _half(len(positions), error)
            else:
                start += len(positions)
        return stats.close(theta)

    def _measure(self, task: LocalTask, measurement: Measurement) -> dict[str, Tensor]:
        clients, start = len(task.ids), 0
        found: dict[str, Tensor] = {}
        self.images = self.images or MEASURED_TOGETHER.get(task.data.labels.device.type, 1024)
        while start < clients:
            positions = list(range(start, min(clients, start + min(self.chunk or clients, self.images))))
            largest = min(task.batch_size, self.images // len(positions))
            try:
                _measure(task, positions, measurement, largest, found)
            except torch.OutOfMemoryError as error:
                self.images = _half(self.images, error)
            else:
                start += len(positions)
        return found


def _half(size: int, error: Exception) -> int:
    if size == 1:
        raise UserError("not even one client fits into the device's memory: use a smaller batch_size") from error
    return size // 2


def _fitting(task: LocalTask) -> int:
    """How many clients probably fit into the memory for them; at least one. A function of task and machine alone."""
    device = task.data.labels.device
    memory = torch.cuda.get_device_properties(device).total_memory // 2 if device.type == "cuda" else BUDGET
    parameters = sum(t[0].numel() * t.element_size() for t in leaves(task.theta))
    images = task.batch_size * task.data.sample_size * task.data.centre.element_size()
    return max(1, memory // (COPIES * parameters + ACTIVATIONS * images))


def _train(task: LocalTask, positions: list[int], solver: Solver, result: Any, stats: TrainingStats) -> None:
    """All epochs of some clients, whose rows of `result` and `stats` are written."""
    order = sorted(positions, key=lambda p: -(len(task.images[task.ids[p]]) // task.batch_size))
    where = stats.steps.new_tensor(order)
    theta, clients = rows(task.theta, where), rows(task.clients, where)
    memory = solver.memory(theta)
    stats.steps[where] = 0  # an attempt that ran out of memory may have counted
    stats.open(where)
    ids = [task.ids[p] for p in order]
    for group in _single(task, ids, stats, where) if task.together == 1 else _several(task, ids, where):
        at, places = group.rows, where[group.rows]
        here, kept = rows(theta, at), rows(memory, at)
        apply = _to_each(task, group.index, rows(clients, at), group.keys)
        after, entry = solver.advance(apply, here, kept, stats.count(places))
        stats.add(places, entry, sum(index.shape[1] for index in group.index))
        if after is not here:  # a step may hand on what it was given, under another name
            _put(theta, at, tree_map(torch.clone, after))
        elif isinstance(at, Tensor):
            _put(theta, at, here)
        if isinstance(at, Tensor):
            _put(memory, at, kept)
    _put(result, where, theta)


def _single(task: LocalTask, ids: list[int], stats: TrainingStats, where: Tensor) -> Iterator[Group]:
    """Steps of one batch each, all epochs; `stats` are opened anew for every one."""
    for epoch in range(max(map(task.epochs_of, ids))):
        orders = [task.order(client, epoch) for client in ids]
        stats.open(where[[row for row, images in enumerate(orders) if len(images)]])
        yield from _groups(orders, task.batch_size, where.new_tensor([task.key(client, epoch) for client in ids]))


def _groups(orders: list[Tensor], size: int, keys: Tensor) -> Iterator[Group]:
    """The batches of one epoch; clients sorted by their number of full ones are views of the stack, others copies."""
    full = [len(order) // size for order in orders]
    padded = pad_sequence(orders, batch_first=True)
    for step in range(max(full)):
        still = [row for row, number in enumerate(full) if number > step]
        at = slice(len(still)) if still[-1] < len(still) else padded.new_tensor(still)
        yield Group(at, [padded[at, step * size : (step + 1) * size]], keys[at] + step)
    for rest in sorted({len(order) % size for order in orders} - {0}):
        those = [row for row, order in enumerate(orders) if len(order) % size == rest]
        at, index = padded.new_tensor(those), torch.stack([orders[row][-rest:] for row in those])
        yield Group(at, [index], keys[at] + padded.new_tensor([full[row] for row in those]))


def _several(task: LocalTask, ids: list[int], where: Tensor) -> Iterator[Group]:
    """Steps of several consecutive batches each, which may lie in two epochs; what is left at the end is not used."""
    together = task.together
    found = [[keyed for epoch in range(task.epochs_of(i)) for keyed in task.batches(i, epoch)] for i in ids]
    for start in range(0, max(map(len, found)), together):
        alike: dict[tuple[int, ...], list[int]] = {}
        for row, batches in enumerate(found):
            if start + together <= len(batches):
                sizes = tuple(len(index) for _, index in batches[start : start + together])
                alike.setdefault(sizes, []).append(row)
        for those in alike.values():
            index = [torch.stack([found[row][start + place][1] for row in those]) for place in range(together)]
            keys = where.new_tensor([found[row][start][0] for row in those])
            yield Group(where.new_tensor(those), index, keys)


def batches_per_call(images: list[Tensor], size: int) -> float:
    """How many clients' batches of `size` a call serves on average, when clients with these images train together."""
    full = max(len(index) // size for index in images)
    calls = full + len({len(index) % size for index in images} - {0})
    return sum(-(-len(index) // size) for index in images) / max(1, calls)


def _measure(
    task: LocalTask, positions: list[int], measurement: Measurement, largest: int, found: dict[str, Tensor]
) -> None:
    """Sums over all images of some clients, whose rows of `found` are written; `largest` images of each in a call."""
    images = [task.images[task.ids[p]] for p in positions]
    totals: dict[str, Tensor] = {}
    for those, index in _pieces(images, largest):
        where = index.new_tensor([positions[row] for row in those])
        apply = _to_each(task, [index], rows(task.clients, where), None)
        for name, value in apply(lambda *a: dict(measurement(*a)), rows(task.theta, where)).items():
            value = value + 0  # a truth value becomes a number
            if name not in totals:
                totals[name] = value.new_zeros(len(positions), *value.shape[1:])
            totals[name].index_add_(0, index.new_tensor(those), value)
    for name, total in totals.items():
        if name not in found:
            found[name] = total.new_zeros(len(task.ids), *total.shape[1:])
        found[name][positions] = total


def _pieces(lists: list[Tensor], largest: int) -> Iterator[tuple[list[int], Tensor]]:
    """(rows [k], images [k, size]): every list in pieces of falling size, each size the half of the one before."""
    size, start = 1 << (max(1, largest).bit_length() - 1), [0] * len(lists)
    while size:
        those = [row for row, images in enumerate(lists) if len(images) - start[row] >= size]
        if those:
            yield those, torch.stack([lists[row][start[row] : start[row] + size] for row in those])
        for row in those:
            start[row] += size
        if not those:
            size //= 2


def _to_each(task: LocalTask, index: list[Tensor], clients: Any, keys: Tensor | None) -> Apply:
    """Applies a function of one client to k of them: their θ, images of a step [k, B], `clients` and `keys` [k]."""
    batches = [task.batch(images) for images in index]

    def apply(function: Callable[[Any, Any, LossContext], Any], theta: Any) -> Any:
        def one(own: list[Tensor], private: list[Tensor], x: list[Tensor], y: list[Tensor], key: Tensor | None) -> Any:
            at = task.at(rebuilt(clients, private), key)
            given = task.given([Batch(*pair) for pair in zip(x, y, strict=True)], at)
            return function(rebuilt(theta, own), given, at)

        together = torch.vmap(one, in_dims=(0, 0, 0, 0, None if keys is None else 0))
        try:
            return together(leaves(theta), leaves(clients), [b.x for b in batches], [b.y for b in batches], keys)
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
            raise UserError(
                "this method's loss, step or measurement branches on the values of tensors, so that clients cannot be "
                "stacked; mend it (docs/writing-a-method.md) or choose the executor 'loop'"
            ) from error

    return apply


def _put(stack: Any, at: slice | Tensor, new: Any) -> None:
    """Writes clients' rows into a stack."""

    def put(t: Tensor, value: Tensor) -> Tensor:
        t[at] = value
        return t

    tree_map(put, stack, new)
