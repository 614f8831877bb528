"""The executor that trains all clients together: one call of a function for a whole stack of them.

`fedgrid.engine.local.grouping` decides which of them share a call.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.local.executor import Executor, Trained, TrainingStats, joined_values
from fedgrid.engine.local.grouping import Group, groups
from fedgrid.engine.local.passes import COARSE, Levels, Piece, exact, filled
from fedgrid.engine.local.solvers import Solver
from fedgrid.engine.local.task import Apply, LocalTask, Measurement
from fedgrid.errors import UserError
from fedgrid.tree import Tree, leaves, rebuilt, rows, tree_map

MEASURED_TOGETHER = {"cpu": 1024, "gpu": 16384}
"Images of all clients in one call of a pass without gradient, on a processor and on any other device."
BUDGET = 2**30
"Bytes for the clients that are trained together on a processor, where more bring no gain."
COPIES, ACTIVATIONS = 6, 64
"Memory of a client in training: copies of its parameters, and numbers kept for every number of a batch of images."


class Stacked(Executor):
    """All clients at once, or `chunk` at a time: best on a GPU, and where a step is mostly overhead.

    As many cells `share` a GPU.
    """

    def __init__(self, chunk: int | None = None, share: int = 1):
        self.chunk, self.share = chunk, share
        # what has room; falls where a GPU turns out to have less
        self.clients = sys.maxsize
        self.images: int | None = None

    def _walk(self, task: LocalTask, solver: Solver) -> Trained:
        clients = len(task.ids)
        theta = tree_map(lambda t: t.new_empty(clients, *t.shape[1:]), task.theta)
        stats = TrainingStats(clients, task.data.labels.device)
        wanted, start = self.chunk or self._fitting(task), 0
        while start < clients:
            positions = list(range(start, min(clients, start + min(wanted, self.clients))))
            try:
                _train(task, positions, solver, theta, stats)
            except torch.OutOfMemoryError as error:
                self.clients = _half(len(positions), error)
            else:
                start += len(positions)
        return stats.close(theta)

    def _fitting(self, task: LocalTask) -> int:
        """How many clients probably fit into the room for them; at least one."""
        parameters = sum(t[0].numel() * t.element_size() for t in leaves(task.theta))
        images = task.batch_size * task.data.sample_size * task.data.centre.element_size()
        return max(1, self._room(task) // (COPIES * parameters + ACTIVATIONS * images))

    def _room(self, task: LocalTask) -> int:
        """Bytes for the clients that are trained together: of a GPU, half of this cell's share of its memory."""
        device = task.data.labels.device
        if device.type != "cuda":
            return BUDGET
        memory: int = torch.cuda.get_device_properties(device).total_memory
        return memory // (2 * self.share)

    def _measure(self, task: LocalTask, measurement: Measurement) -> dict[str, Tensor]:
        sums: dict[str, Tensor] = {}

        def passed(positions: list[int], largest: int) -> None:
            for name, total in self._summed(task, positions, measurement, largest).items():
                if len(positions) == len(task.ids):
                    sums[name] = total
                    continue
                if name not in sums:
                    sums[name] = total.new_zeros(len(task.ids), *total.shape[1:])
                sums[name][positions[0] : positions[-1] + 1] = total

        self._passed(task, passed)
        return sums

    def _summed(
        self, task: LocalTask, positions: list[int], measurement: Measurement, largest: int
    ) -> dict[str, Tensor]:
        """Sums [k, …] over all images of consecutive clients; `largest` of each in a call."""
        return summed(task, pieces(task, positions, measurement, largest), measurement, len(positions))

    def _collect(self, task: LocalTask, function: Measurement) -> list[Tree]:
        if not _shares_calls(task):
            return super()._collect(task, function)
        parts: list[list[Mapping[str, Tensor]]] = [[] for _ in task.ids]
        self._passed(task, lambda positions, largest: _collect(task, positions, function, largest, parts))
        return [joined_values(part or self._batchwise(task, position, function)) for position, part in enumerate(parts)]

    def _passed(self, task: LocalTask, passed: Callable[[list[int], int], None]) -> None:
        """A pass without gradient: `passed` is called with positions of clients, and the most images of each a call."""
        clients, start = len(task.ids), 0
        self.images = self.images or MEASURED_TOGETHER["gpu" if _shares_calls(task) else "cpu"]
        while start < clients:
            positions = list(range(start, min(clients, start + min(self.chunk or clients, self.images))))
            largest = min(task.batch_size, self.images // len(positions))
            try:
                passed(positions, largest)
            except torch.OutOfMemoryError as error:
                self.images = _half(self.images, error)
            else:
                start += len(positions)


def _half(size: int, error: Exception) -> int:
    if size == 1:
        raise UserError("not even one client fits into the device's memory: use a smaller batch_size") from error
    return size // 2


def _train(task: LocalTask, positions: list[int], solver: Solver, result: Any, stats: TrainingStats) -> None:
    """All epochs of some clients, whose rows of `result` and `stats` are written."""
    where, plan = groups(task, positions)
    theta, clients, stats_of_part = (
        rows(task.theta, where),
        rows(task.clients, where),
        TrainingStats(len(where), where.device),
    )
    memory = solver.memory(theta)
    for group in plan:
        if group.opened is not None:
            stats_of_part.open(group.opened)
        advance(task, solver, group, theta, clients, memory, stats_of_part)
    _put(result, where, theta)
    stats.put(where, stats_of_part)


def advance(
    task: LocalTask, solver: Solver, group: Group, theta: Tree, clients: Tree, memory: Tree, stats: TrainingStats
) -> None:
    """A step of the clients of a group, whose rows of `theta`, `memory` and `stats` change in place."""
    at = group.rows
    before, momenta = rows(theta, at), rows(memory, at)
    apply = _to_each(task, group.index, rows(clients, at), group.keys)
    moved, entry = solver.advance(apply, before, momenta, stats.count(at))
    stats.add(at, entry, sum(index.shape[1] for index in group.index))
    if moved is not before:  # a step may return its input under another name
        _put(theta, at, tree_map(torch.clone, moved))
    elif isinstance(at, Tensor):
        _put(theta, at, before)
    if isinstance(at, Tensor):
        _put(memory, at, momenta)


def _shares_calls(task: LocalTask) -> bool:
    """Whether calls cost more than images that are computed in vain."""
    return task.data.labels.device.type != "cpu"


def pieces(
    task: LocalTask, positions: list[int], measurement: Measurement, largest: int, levels: Levels = COARSE
) -> list[Piece]:
    """What a pass over the images of consecutive clients consists of."""
    fills = _shares_calls(task) and getattr(measurement, "counts_filled", False)
    return filled(task, positions, largest, levels) if fills else exact(task, positions, largest)


def summed(task: LocalTask, parts: Sequence[Piece], measurement: Measurement, clients: int) -> dict[str, Tensor]:
    """Sums [clients, …] over all images in the parts of a pass."""
    totals: dict[str, Tensor] = {}
    for piece in parts:
        apply = _to_each(task, [piece.index], rows(task.clients, piece.rows), None, piece.counted)
        for name, value in apply(lambda *a: dict(measurement(*a)), rows(task.theta, piece.rows)).items():
            value = value + 0  # a truth value becomes a number
            totals[name] = _added(totals.get(name), piece.members, value, clients)
    return totals


def _added(total: Tensor | None, members: Tensor, values: Tensor, clients: int) -> Tensor:
    """The sums [clients, …] so far with the values of some of the clients."""
    if total is None and len(members) == clients:  # all of them, in their order
        return values.contiguous()
    if total is None:
        total = values.new_zeros(clients, *values.shape[1:])
    return total.index_add_(0, members, values)


def _collect(
    task: LocalTask, positions: list[int], function: Measurement, largest: int, parts: list[list[Mapping[str, Tensor]]]
) -> None:
    """Values for the images of consecutive clients, whose entries of `parts` are written."""
    for position in positions:
        parts[position] = []
    for piece in filled(task, positions, largest):
        apply = _to_each(task, [piece.index], rows(task.clients, piece.rows), None)
        values = apply(lambda *a: dict(function(*a)), rows(task.theta, piece.rows))
        for row, (position, images) in enumerate(piece.sizes):
            parts[position].append({name: value[row, :images] for name, value in values.items()})


def _to_each(
    task: LocalTask, index: list[Tensor], clients: Any, keys: Tensor | None, counted: Tensor | None = None
) -> Apply:
    """Applies a function of one client to k of them: their θ, images of a step [k, B], `clients` and `keys` [k].

    `counted` [k, B] goes into `Batch`.
    """
    batches = [task.batch(images) for images in index]

    def apply(function: Callable[[Any, Any, LossContext], Any], theta: Any) -> Any:
        def single(
            parameters: list[Tensor],
            private: list[Tensor],
            x: list[Tensor],
            y: list[Tensor],
            counted: Tensor | None,
            key: Tensor | None,
        ) -> Any:
            at = task.at(rebuilt(clients, private), key)
            loss_input = task.loss_input([Batch(*pair, counted) for pair in zip(x, y, strict=True)], at)
            return function(rebuilt(theta, parameters), loss_input, at)

        in_dims = (0, 0, 0, 0, None if counted is None else 0, None if keys is None else 0)
        x, y = [batch.x for batch in batches], [batch.y for batch in batches]
        try:
            return torch.vmap(single, in_dims=in_dims)(leaves(theta), leaves(clients), x, y, counted, keys)
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
            raise UserError(
                "this method's loss, step or measurement branches on the values of tensors, so that clients cannot be "
                "stacked; rewrite it (docs/writing-a-method.md) or choose the executor 'loop'"
            ) from error

    return apply


def _put(stack: Any, at: slice | Tensor, new: Any) -> None:
    """Writes clients' rows into a stack."""

    def put(t: Tensor, value: Tensor) -> Tensor:
        t[at] = value
        return t

    tree_map(put, stack, new)
