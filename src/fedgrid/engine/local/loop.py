"""The executor that trains one client after the other."""

from typing import Any

import torch
from torch import Tensor

from fedgrid.engine.local.devices import flat, sent
from fedgrid.engine.local.executor import Executor, Trained, TrainingStats, client_copy
from fedgrid.engine.local.solvers import Solver
from fedgrid.engine.local.task import Apply, LocalTask, Measurement
from fedgrid.tree import Tree, row, tree_map

Keyed = tuple[int, Tensor]
"Where the random numbers of a batch start, and its images."
Epochs = list[list[Keyed]]
"A client's batches by epoch."


class Loop(Executor):
    """Client after client, convolutions with channels last: best on a processor, with layers that fill it."""

    def _walk(self, task: LocalTask, solver: Solver) -> Trained:
        clients = len(task.ids)
        theta = tree_map(lambda t: t.new_empty(clients, *t.shape[1:]), task.theta)
        stats = TrainingStats(clients, task.data.labels.device)
        for position, epochs in enumerate(_epochs(task)):
            trained = self._client(task, position, epochs, solver, stats)
            tree_map(lambda all_, part, p=position: all_[p].copy_(part), theta, trained)
        return stats.close(theta)

    def _client(self, task: LocalTask, position: int, epochs: Epochs, solver: Solver, stats: TrainingStats) -> Any:
        theta = client_copy(task.theta, position)
        private, memory = row(task.clients, position), solver.memory(theta)
        waiting: list[Keyed] = []
        for batches in epochs:
            if task.together == 1:
                stats.open(position)
            for keyed in batches:
                waiting.append(keyed)
                if len(waiting) == task.together:
                    apply = _to(task, private, waiting)
                    theta, entry = solver.advance(apply, theta, memory, stats.count(position))
                    stats.add(position, entry, sum(len(index) for _, index in waiting))
                    waiting = []
        return theta

    def _measure(self, task: LocalTask, measurement: Measurement) -> dict[str, Tensor]:
        rows = [self._measured(task, position, measurement) for position in range(len(task.ids))]
        return {name: torch.stack([sums[name] for sums in rows]) for name in rows[0]}

    def _measured(self, task: LocalTask, position: int, measurement: Measurement) -> dict[str, Tensor]:
        parts = self._batchwise(task, position, measurement)
        return {name: torch.stack([part[name] for part in parts]).sum(dim=0) for name in parts[0]}


def _epochs(task: LocalTask) -> list[Epochs]:
    """What every client goes through; all of it is sent to the device in one copy."""
    plan = [[list(task.batches(client, epoch)) for epoch in range(task.epochs_of(client))] for client in task.ids]
    places = [index_of_batch for epochs in plan for batches in epochs for _, index_of_batch in batches]
    (index,) = sent([flat(places)], task.data.labels.device)
    images = task.images_at(index, places)
    return [[[(key, next(images)) for key, _ in batches] for batches in epochs] for epochs in plan]


def _to(task: LocalTask, private: Tree, keyed: list[Keyed]) -> Apply:
    """Applies a function to one client's batch, or to the batches of a step."""
    batches, at = [task.batch(index) for _, index in keyed], task.at(private, keyed[0][0])
    loss_input = task.loss_input(batches, at)
    return lambda function, theta: function(theta, loss_input, at)
