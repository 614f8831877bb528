"""The executor that trains one client after the other with ordinary autograd."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedgrid.engine.executor import Diverged, Loss, Measurement, Pass, Trained
from fedgrid.engine.method import At
from fedgrid.engine.settings import Training
from fedgrid.engine.tree import Bundle, Tree, row, tree_map

EVALUATION_BATCH = 1024


class Loop:
    """Client after client."""

    def train(self, task: Pass, loss: Loss, epochs: int, lr: float, part: str, stream: str) -> Trained:
        """See `Federation.train`."""
        done = [self._train_client(task, position, loss, epochs, lr, part, stream) for position in range(len(task.ids))]
        thetas, losses, means, steps = zip(*done, strict=True)
        names = {name for mean in means for name in mean}
        mean = Bundle({name: _column([m.get(name, torch.nan) for m in means], losses[0]) for name in sorted(names)})
        return Trained(_stacked(thetas), torch.stack(losses), mean, torch.tensor(steps))

    def measure(self, task: Pass, measurement: Measurement) -> Bundle:
        """See `Federation.measure`."""
        with torch.no_grad():
            return Bundle(_stacked([self._measure_client(task, p, measurement) for p in range(len(task.ids))]))

    def _train_client(self, task, position, loss, epochs, lr, part, stream) -> tuple[Tree, Tensor, dict, int]:
        client, at = task.ids[position], _at(task, position)
        theta = tree_map(lambda t: t.detach().clone(), row(task.theta, position))
        trained = [t.requires_grad_() for name, t in theta.items() if name.startswith(part)]
        optimizer = _optimizer(task.training, trained, lr)
        last, means, steps = task.data.centre.new_tensor(torch.nan), {}, 0
        with torch.enable_grad():
            for epoch in range(epochs):
                totals: dict[str, Any] = defaultdict(float)
                batches = task.batches(client, epoch, stream)
                for index in batches:
                    _step(loss, theta, task.data.batch(index), at, optimizer, totals)
                steps += len(batches)
                if batches:
                    last, means = _means(totals, len(task.data.train[client]))
        if steps and not torch.isfinite(last):
            raise Diverged(task.round, client)
        return tree_map(lambda t: t.detach(), theta), last, means, steps

    def _measure_client(self, task: Pass, position: int, measurement: Measurement) -> dict[str, Tensor]:
        at, theta, index = _at(task, position), row(task.theta, position), task.data.train[task.ids[position]]
        batches = [measurement(theta, task.data.batch(part), at) for part in index.split(EVALUATION_BATCH)]
        return {name: torch.stack([batch[name] for batch in batches]).sum(dim=0) for name in batches[0]}


def _step(loss: Loss, theta: Tree, batch, at: At, optimizer: torch.optim.Optimizer, totals: dict[str, Any]) -> None:
    """One optimiser step; adds the batch's loss and named quantities, times their samples, to `totals`."""
    result = loss(theta, batch, at)
    value, named = result if isinstance(result, tuple) else (result, {})
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    totals["loss"] += value.detach() * len(batch.y)
    for name, (total, samples) in named.items():
        totals["sum", name] += total.detach()
        totals["samples", name] += samples


def _means(totals: Mapping[Any, Tensor], samples: int) -> tuple[Tensor, dict[str, Tensor]]:
    names = [key[1] for key in totals if key[0] == "sum"]
    return totals["loss"] / samples, {name: totals["sum", name] / totals["samples", name] for name in names}


def _at(task: Pass, position: int) -> At:
    return At(task.model, task.server, row(task.clients, position))


def _optimizer(training: Training, trained: list[Tensor], lr: float) -> torch.optim.Optimizer:
    if training.optimizer == "adam":
        return torch.optim.Adam(trained, lr=lr, weight_decay=training.weight_decay)
    return torch.optim.SGD(trained, lr=lr, momentum=training.momentum, weight_decay=training.weight_decay)


def _stacked(trees) -> Any:
    return tree_map(lambda *tensors: torch.stack(tensors), *trees)


def _column(values: list, like: Tensor) -> Tensor:
    return torch.stack([torch.as_tensor(v, dtype=like.dtype, device=like.device) for v in values])
