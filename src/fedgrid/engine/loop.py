"""The executor that trains one client after the other."""

from typing import Any

import torch
from torch import Tensor

from fedgrid.engine.context import Batch, LossContext
from fedgrid.engine.executor import Executor, Trained, TrainingStats, client_copy
from fedgrid.engine.solvers import Solver
from fedgrid.engine.task import Apply, LocalTask, Measurement
from fedgrid.tree import row, tree_map


class Loop(Executor):
    """Client after client, convolutions with channels last: best on a processor, with layers that fill it."""

    def _walk(self, task: LocalTask, solver: Solver) -> Trained[Any]:
        clients = len(task.ids)
        theta = tree_map(lambda t: t.new_empty(clients, *t.shape[1:]), task.theta)
        stats = TrainingStats(clients, task.data.labels.device)
        for position in range(clients):
            after = self._client(task, position, solver, stats)
            tree_map(lambda all_, own, p=position: all_[p].copy_(own), theta, after)
        return stats.close(theta)

    def _client(self, task: LocalTask, position: int, solver: Solver, stats: TrainingStats) -> Any:
        client, theta = task.ids[position], client_copy(task.theta, position)
        private, memory = row(task.clients, position), solver.memory(theta)
        for epoch in range(task.epochs_of(client)):
            stats.open(position)
            key = task.key(client, epoch)
            for number, index in enumerate(_batches(task.order(client, epoch), task.batch_size)):
                apply = _to(task.data.batch(index), task.at(private, key + number))
                theta, entry = solver.advance(apply, theta, memory, stats.count(position))
                stats.add(position, entry, len(index))
        return theta

    def _measure(self, task: LocalTask, measurement: Measurement) -> dict[str, Tensor]:
        rows = [self._measured(task, position, measurement) for position in range(len(task.ids))]
        return {name: torch.stack([found[name] for found in rows]) for name in rows[0]}

    def _measured(self, task: LocalTask, position: int, measurement: Measurement) -> dict[str, Tensor]:
        found = self._batchwise(task, position, measurement)
        return {name: torch.stack([part[name] for part in found]).sum(dim=0) for name in found[0]}


def _batches(order: Tensor, size: int) -> tuple[Tensor, ...]:
    """All images in batches, the last of which may be smaller; none of a client without images."""
    return order.split(size) if len(order) else ()


def _to(batch: Batch, at: LossContext) -> Apply:
    return lambda function, theta: function(theta, batch, at)
