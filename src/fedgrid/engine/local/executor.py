"""Executors train clients: one trains them one after the other, another together, both from the same task.

An executor walks over clients, epochs and batches; a *solver* says what happens at a batch. What a method gives is a
pure function of one client's θ and batch, which the walker applies to one client or to a stack of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedgrid.engine.local.devices import now
from fedgrid.engine.local.optimizers import Optimizer
from fedgrid.engine.local.solvers import CustomStep, Descent, Solver
from fedgrid.engine.local.task import LocalTask, Loss, Measurement, Step
from fedgrid.tree import Tree, as_tree, leaves, row, tree_map


class Diverged(Exception):
    """Raised when `what` is no longer finite; `round_` counts from 0, the sentence from 1."""

    def __init__(self, round_: int, what: str):
        super().__init__(f"{what} is not finite in round {round_ + 1}")
        self.what = what


@dataclass(frozen=True)
class Trained:
    """What local training gives back."""

    theta: Tree
    "Trained parameters, stack [n, …]."
    loss: Tensor
    "Mean training loss over the last epoch [n]; NaN for a client that saw no batch."
    mean: Tree
    "Means [n] of the quantities that the loss names, over the last epoch; NaN where no sample counted."
    steps: Tensor
    "Steps taken [n], K_i."


class TrainingStats:
    """Losses, named sums and steps of n clients while they train; `rows` are a position, a slice or positions [k]."""

    def __init__(self, clients: int, device: torch.device):
        self.steps = torch.zeros(clients, dtype=torch.long, device=device)
        self.totals: dict[tuple[str, ...], Tensor] = {}

    def open(self, rows: Any) -> None:
        """A new epoch: its means replace the last one's."""
        for total in self.totals.values():
            total[rows] = 0

    def count(self, rows: Any) -> Tensor:
        """One more step; the steps taken with it."""
        return _increased(self.steps, rows, 1)

    def add(self, rows: Any, entry: Mapping[str, Any], samples: int) -> None:
        """Adds a batch of `samples` images for each of the clients."""
        self._add(("loss",), rows, entry["loss"].detach() * samples)
        self._add(("images",), rows, samples)
        for kind in ("sums", "samples"):
            for name, value in entry[kind].items():
                self._add((kind, name), rows, value.detach())

    def _add(self, name: tuple[str, ...], rows: Any, value: Tensor | int) -> None:
        if name not in self.totals:
            self.totals[name] = torch.zeros(len(self.steps), dtype=torch.float64, device=self.steps.device)
        _increased(self.totals[name], rows, value)

    def put(self, positions: Tensor, part: "TrainingStats") -> None:
        """Takes over the stats of some of the clients."""
        self.steps[positions] = part.steps
        for name, total in part.totals.items():
            self.totals.setdefault(name, torch.zeros_like(self.steps, dtype=total.dtype))[positions] = total

    def close(self, theta: Tree) -> Trained:
        """The stats of the last epoch beside the trained parameters."""
        kind = next((t.dtype for t in leaves(theta) if t.is_floating_point()), torch.float32)
        nothing = torch.zeros(len(self.steps), dtype=torch.float64, device=self.steps.device)
        loss = self.totals.get(("loss",), nothing) / self.totals.get(("images",), nothing)
        names = sorted(key[1] for key in self.totals if key[0] == "sums")
        mean = {name: (self.totals["sums", name] / self.totals["samples", name]).to(kind) for name in names}
        return Trained(theta, loss.to(kind), Tree(mean), self.steps)


def _increased(numbers: Tensor, rows: Any, by: Tensor | int) -> Tensor:
    """Some of the numbers after something was added to them, in place."""
    chosen = numbers[rows]
    chosen += by
    if isinstance(rows, Tensor):  # which chooses copies, not views
        numbers[rows] = chosen
    return chosen


class Executor(ABC):
    """Both executors give the same numbers, to rounding."""

    seconds = 0.0
    "Time spent on clients so far."

    def train(self, task: LocalTask, loss: Loss, optimizer: Optimizer, part: str) -> Trained:
        """Trains every client of the task; raises Diverged. See `Federation.train`."""
        return self._checked(task, Descent(loss, optimizer, part))

    def iterate(self, task: LocalTask, step: Step) -> Trained:
        """Trains every client of the task with the method's own step; raises Diverged. See there."""
        return self._checked(task, CustomStep(step))

    @torch.no_grad()
    def measure(self, task: LocalTask, measurement: Measurement) -> Tree:
        """Adds up a measurement over every client's images, as stacks [n, …]. See `Federation.measure`."""
        with self._working(task):
            if not task.data.modality:
                return Tree(self._measure(task, measurement))
            parts = [(where, Tree(self._measure(part, measurement))) for where, part in task.of_one_modality()]
            return joined(len(task.ids), parts)

    @torch.no_grad()
    def collect(self, task: LocalTask, function: Measurement) -> list[Tree]:
        """A value for every image; results differ in length. See `Federation.collect`."""
        results: dict[int, Tree] = {}
        with self._working(task):
            for where, part in task.of_one_modality() or [(torch.arange(len(task.ids)), task)]:
                results |= zip(where.tolist(), self._collect(part, function), strict=True)
        return [results[position] for position in range(len(task.ids))]

    @torch.no_grad()
    def _checked(self, task: LocalTask, solver: Solver) -> Trained:
        with self._working(task):
            trained = self._walked(task, solver)
            _require_finite(task, trained)
        return trained

    def _walked(self, task: LocalTask, solver: Solver) -> Trained:
        """All epochs of all clients, of one modality after the other."""
        if not task.data.modality:
            return self._walk(task, solver)
        parts = [(where, as_tree(vars(self._walk(part, solver)))) for where, part in task.of_one_modality()]
        return Trained(**joined(len(task.ids), parts))

    def _collect(self, task: LocalTask, function: Measurement) -> list[Tree]:
        """Values for the images of every client, of whom each has a call for each of its batches."""
        return [joined_values(self._batchwise(task, position, function)) for position in range(len(task.ids))]

    def _batchwise(self, task: LocalTask, position: int, function: Measurement) -> list[Mapping[str, Tensor]]:
        """What a function gives for each batch of one client's images; without any it is called once, with none."""
        at, theta = task.at(row(task.clients, position), None), client_copy(task.theta, position)
        batches = task.images[task.ids[position]].split(task.batch_size)
        return [function(theta, task.batch(index), at) for index in batches]

    @contextmanager
    def _working(self, task: LocalTask) -> Iterator[None]:
        """Surrounds all work on a task, whose seconds count."""
        device = task.data.labels.device
        start = now(device)
        yield
        self.seconds += now(device) - start

    @abstractmethod
    def _walk(self, task: LocalTask, solver: Solver) -> Trained:
        """All epochs of all clients."""

    @abstractmethod
    def _measure(self, task: LocalTask, measurement: Measurement) -> dict[str, Tensor]:
        """All images of all clients."""


def joined_values(parts: Sequence[Mapping[str, Tensor]]) -> Tree:
    """One client's values [B, …] of several batches, one after the other."""
    return Tree({name: torch.cat([part[name] for part in parts]) for name in parts[0]})


def joined(clients: int, parts: Sequence[tuple[Tensor, Tree]]) -> Tree:
    """One stack [clients, …] of stacks with the same entries, each with its positions [m].

    A mean that was named where a client saw a batch is NaN where none did.
    """
    first = max((part for _, part in parts), key=lambda part: len(leaves(part)))
    full = tree_map(lambda t: t.new_full((clients, *t.shape[1:]), torch.nan if t.is_floating_point() else 0), first)
    for where, part in parts:
        full = _with_rows(full, where, part)
    return full


def _with_rows(full: Any, where: Tensor, part: Any) -> Any:
    if not isinstance(full, Mapping):
        return full.index_copy(0, where, part)
    return Tree((name, _with_rows(t, where, part[name]) if name in part else t) for name, t in full.items())


def client_copy(stack: Any, position: int) -> Any:
    """One client's own copy of its row; convolutions are fastest with their channels last."""

    def copied(t: Tensor) -> Tensor:
        return t.clone(memory_format=torch.channels_last if t.dim() == 4 else torch.contiguous_format)

    return tree_map(copied, row(stack, position))


def _require_finite(task: LocalTask, trained: Trained) -> None:
    """Raises Diverged for the first client whose loss, or else whose model, is not finite."""
    losses = trained.loss.isfinite() | (trained.steps == 0)
    # the last step itself may be the one that leaps; a sum is a quarter of the work
    sums = [t.reshape(len(t), -1).sum(dim=1) for t in leaves(trained.theta)]
    models = torch.stack([*sums, trained.steps.to(trained.loss.dtype)]).isfinite().all(dim=0)
    if (losses & models).all():  # the only wait, unless something is wrong
        return
    for finite, what in ((losses, "the training loss"), (models, "the model")):
        if not finite.all():
            wrong = task.data.number(task.ids[int((~finite).nonzero()[0])])
            raise Diverged(task.round, f"{what} of client {wrong}")
