"""The executor that trains one client after the other with ordinary autograd."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from fedgrid.engine.executor import Diverged, Loss, Measurement, Pass, Step, Trained
from fedgrid.engine.method import At, Batch
from fedgrid.settings import Training
from fedgrid.tree import Bundle, Tree, leaves, row, stacked, tree_map

Advance = Callable[[Tree, Batch, At], tuple[Tree, Any]]
"One step of one client: new parameters, and what its loss or step reported."


class Loop:
    """Client after client."""

    def train(self, task: Pass, loss: Loss, lr: float, part: str) -> Trained:
        """See `Federation.train`."""

        def start(theta: Tree) -> Advance:
            trained = [tensor.requires_grad_() for name, tensor in theta.items() if name.startswith(part)]
            optimizer = _optimizer(task.training, trained, lr)
            return lambda theta, batch, at: (theta, _descend(loss(theta, batch, at), optimizer))

        with torch.enable_grad():
            return _gathered([_train_client(task, position, start) for position in range(len(task.ids))])

    def iterate(self, task: Pass, step: Step) -> Trained:
        """See `Federation.iterate`."""
        with torch.no_grad():
            return _gathered([_train_client(task, position, lambda theta: step) for position in range(len(task.ids))])

    def measure(self, task: Pass, measurement: Measurement) -> Bundle:
        """See `Federation.measure`."""
        with torch.no_grad():
            return Bundle(stacked([_measure_client(task, p, measurement) for p in range(len(task.ids))]))


def _train_client(task: Pass, position: int, start: Callable[[Tree], Advance]) -> tuple[Tree, Tensor, dict, int]:
    """(parameters, mean loss and named means over the last epoch, steps) of one client."""
    client, at = task.ids[position], _at(task, position)
    theta = tree_map(lambda t: t.detach().clone(), row(task.theta, position))
    advance = start(theta)
    last, means, steps = task.data.centre.new_tensor(torch.nan), {}, 0
    for epoch in range(task.epochs):
        totals: dict[Any, Any] = defaultdict(float)
        for index in task.batches(client, epoch):
            theta, result = advance(theta, task.data.batch(index), at)
            _add(totals, result, len(index))
            steps += 1
        if totals:
            last, means = _means(totals, len(task.data.train[client]))
    theta = tree_map(lambda t: t.detach(), theta)
    if steps and not torch.isfinite(last):
        raise Diverged(task.round, f"the training loss of client {client}")
    if not all(t.isfinite().all() for t in leaves(theta)):  # the last step itself may be the one that leaps
        raise Diverged(task.round, f"the model of client {client}")
    return theta, last, means, steps


def _measure_client(task: Pass, position: int, measurement: Measurement) -> dict[str, Tensor]:
    at, theta, index = _at(task, position), row(task.theta, position), task.data.train[task.ids[position]]
    batches = [measurement(theta, batch, at) for batch in task.data.large_batches(index)]
    return {name: torch.stack([batch[name] for batch in batches]).sum(dim=0) for name in batches[0]}


def _descend(result: Any, optimizer: torch.optim.Optimizer) -> Any:
    """One optimiser step down the loss; the result comes back for the books."""
    value = result[0] if isinstance(result, tuple) else result
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return result


def _add(totals: dict[Any, Any], result: Any, samples: int) -> None:
    """Adds a batch's loss, times its samples, and its named sums and numbers of samples."""
    value, named = result if isinstance(result, tuple) else (result, {})
    totals["loss"] += value.detach() * samples
    for name, (total, counted) in named.items():
        totals["sum", name] += total.detach()
        totals["samples", name] += counted


def _means(totals: Mapping[Any, Tensor], samples: int) -> tuple[Tensor, dict[str, Tensor]]:
    names = [key[1] for key in totals if key[0] == "sum"]
    return totals["loss"] / samples, {name: totals["sum", name] / totals["samples", name] for name in names}


def _gathered(clients: list[tuple[Tree, Tensor, dict, int]]) -> Trained:
    thetas, losses, means, steps = zip(*clients, strict=True)
    names = sorted({name for mean in means for name in mean})
    nothing = losses[0].new_tensor(torch.nan)  # a client that saw no batch
    mean = {name: torch.stack([mean.get(name, nothing).to(nothing.dtype) for mean in means]) for name in names}
    return Trained(stacked(thetas), torch.stack(losses), Bundle(mean), torch.tensor(steps, device=nothing.device))


def _at(task: Pass, position: int) -> At:
    return At(task.model, task.server, row(task.clients, position))


def _optimizer(training: Training, trained: list[Tensor], lr: float) -> torch.optim.Optimizer:
    if training.optimizer == "adam":
        return torch.optim.Adam(trained, lr=lr, weight_decay=training.weight_decay)
    return torch.optim.SGD(trained, lr=lr, momentum=training.momentum, weight_decay=training.weight_decay)
