"""The call behind which clients are trained: the same task for an executor that trains them one after the other and
for one that trains them together.

An executor walks over clients, epochs and batches; a *solver* says what happens at a batch. What a method gives is a
pure function of one client's θ and batch, which the walker applies to one client or to a stack of them.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fedgrid.engine.client_data import ClientData
from fedgrid.engine.method import At, Batch, Objective
from fedgrid.engine.optimizers import Optimizer
from fedgrid.models.base import Network, is_statistic
from fedgrid.randomness import generator
from fedgrid.tree import Bundle, Tree, leaves, plain, row, tree_map

Loss = Callable[[Tree, Batch, At], Objective]
Step = Callable[[Tree, Batch, At], tuple[Tree, Objective]]
Measurement = Callable[[Tree, Batch, At], Mapping[str, Tensor]]
Apply = Callable[[Callable[[Tree, Batch, At], Any], Tree], Any]
"Calls a function of one client with θ and the batch at hand, for one client or for each of a stack."


class Diverged(Exception):
    """Something (`what`) is no finite number any more; `round_` counts from 0, the sentence from 1."""

    def __init__(self, round_: int, what: str):
        super().__init__(f"{what} is not finite in round {round_ + 1}")
        self.what = what


@dataclass(frozen=True)
class Pass:
    """Clients that go through their own images, each with its own parameters."""

    data: ClientData
    images: list[Tensor]
    "Indices of each client's images, for all N clients: its training or its test images."
    model: Network
    batch_size: int
    seed: int
    round: int
    ids: list[int]
    theta: Tree
    "Stack [n, …]: where each client starts."
    server: Bundle
    "The same for all clients."
    clients: Bundle
    "Stacks [n, …]: one row for each client."
    epochs: int = 1
    steps: int | None = None
    "Batches that every client sees in place of `epochs`; one that has fewer goes through its images again."
    share: float = 1.0
    "Part of a client's images that an epoch uses, drawn anew with their order; at least one image."
    stream: str = "main"
    "Name of the batch order: the same name in a round gives the same batches."

    def epochs_of(self, client: int) -> int:
        """Epochs that a client begins."""
        if self.steps is None or not len(self.images[client]):
            return self.epochs
        return -(-self.steps // self._batches(client))

    def order(self, client: int, epoch: int) -> Tensor:
        """The indices of the images that a client sees in one epoch, in their order."""
        index, used = self.images[client], self._used(client)
        if self.steps is not None:
            left = self.steps - epoch * self._batches(client)
            used = min(used, max(0, left) * self.batch_size)
        return index[index.new_tensor(self._random("batches", client, epoch).permutation(len(index))[:used])]

    def key(self, client: int, epoch: int) -> int:
        """Where the random numbers inside the batches of one epoch start."""
        return int(self._random("noise", client, epoch).integers(1 << 62))

    def at(self, client: Bundle, key: int | Tensor | None) -> At:
        """What a function of one client may look at; without a key, nothing is random and nothing is dropped."""
        return At(self.model if key is None else self.model.learning(key), self.server, client, key)

    def _batches(self, client: int) -> int:
        return -(-self._used(client) // self.batch_size)

    def _used(self, client: int) -> int:
        images = len(self.images[client])
        return min(images, max(1, math.floor(self.share * images + 1e-9)))

    def _random(self, purpose: str, client: int, epoch: int):
        return generator(purpose, self.seed, client, self.round, epoch, self.stream)


@dataclass(frozen=True)
class Trained:
    """What local training gives back."""

    theta: Tree
    "Trained parameters, stack [n, …]."
    loss: Tensor
    "Mean training loss over the last epoch [n]; NaN for a client that saw no batch."
    mean: Bundle
    "Means [n] of the quantities that the loss names, over the last epoch; NaN where no sample counted."
    steps: Tensor
    "Steps taken [n], K_i."


class Solver(Protocol):
    """What happens to θ at a batch."""

    def memory(self, theta: Tree) -> Tree:
        """What is kept from batch to batch beside θ: tensors with θ's client axis, if it has one."""

    def advance(self, apply: Apply, theta: Tree, memory: Tree, taken: Tensor) -> tuple[Tree, dict[str, Any]]:
        """(new θ, entry of `Books`): `taken` counts the steps with this one; what is given may change in place."""


@dataclass(frozen=True)
class Descent:
    """A step of the optimiser down a loss, on the parameters whose names start with `part`."""

    loss: Loss
    optimizer: Optimizer
    part: str

    def memory(self, theta: Tree) -> dict[str, Tree]:
        return self.optimizer.moments(self._trained(theta))

    def advance(self, apply: Apply, theta: Tree, memory: dict[str, Tree], taken: Tensor) -> tuple[Tree, dict[str, Any]]:
        trained = {name: t.detach().requires_grad_() for name, t in self._trained(theta).items()}
        with torch.enable_grad():
            entry = apply(self._entry, theta | trained)
            total = entry["loss"].sum()
        if total.requires_grad:  # not if the loss is a constant
            # clients share nothing that is trained, so the gradient of the sum holds each one's own
            slopes = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
            self.optimizer.step(trained, slopes, memory, taken)
        return theta, entry

    def _trained(self, theta: Tree) -> Tree:
        found = {name: t for name, t in theta.items() if name.startswith(self.part) and not is_statistic(name)}
        if not found:
            raise ValueError(f"part: no parameter's name starts with '{self.part}', only: {', '.join(theta)}")
        return found

    def _entry(self, theta: Tree, batch: Batch, at: At) -> dict[str, Any]:
        return _entry(self.loss(theta, batch, at))


@dataclass(frozen=True)
class OwnStep:
    """A step that the method itself takes."""

    step: Step

    def memory(self, theta: Tree) -> Tree:
        return {}

    def advance(self, apply: Apply, theta: Tree, memory: Tree, taken: Tensor) -> tuple[Tree, dict[str, Any]]:
        result = apply(self._result, theta)
        if _form(result["theta"]) != _form(theta):
            raise ValueError("a step must return a tree with the names, shapes and types of the one that it was given")
        return result["theta"], result["entry"]

    def _result(self, theta: Tree, batch: Batch, at: At) -> dict[str, Any]:
        after, objective = self.step(theta, batch, at)
        return {"theta": plain(after), "entry": _entry(objective)}


def _entry(objective: Objective) -> dict[str, Any]:
    """A batch's loss, and its named sums and numbers of samples, as tensors."""
    value, named = objective if isinstance(objective, tuple) else (objective, {})
    # copies: a quantity may be a parameter itself, which the step is about to change in place
    sums = {name: torch.as_tensor(total, device=value.device).clone() for name, (total, _) in named.items()}
    samples = {name: torch.as_tensor(counted, device=value.device) for name, (_, counted) in named.items()}
    return {"loss": value, "sums": sums, "samples": samples}


def _form(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {name: _form(part) for name, part in tree.items()}
    return tree.shape, tree.dtype


class Books:
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
        self.steps[rows] += 1
        return self.steps[rows]

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
        self.totals[name][rows] += value

    def close(self, theta: Tree) -> Trained:
        """The books of the last epoch beside the trained parameters."""
        kind = next((t.dtype for t in leaves(theta) if t.is_floating_point()), torch.float32)
        nothing = torch.zeros(len(self.steps), dtype=torch.float64, device=self.steps.device)
        loss = self.totals.get(("loss",), nothing) / self.totals.get(("images",), nothing)
        names = sorted(key[1] for key in self.totals if key[0] == "sums")
        mean = {name: (self.totals["sums", name] / self.totals["samples", name]).to(kind) for name in names}
        return Trained(theta, loss.to(kind), Bundle(mean), self.steps)


class Executor(ABC):
    """Both executors give the same numbers, to rounding."""

    seconds = 0.0
    "Time spent on clients so far."

    def train(self, task: Pass, loss: Loss, optimizer: Optimizer, part: str) -> Trained:
        """Trains every client of the task; raises Diverged. See `Federation.train`."""
        return self._checked(task, Descent(loss, optimizer, part))

    def iterate(self, task: Pass, step: Step) -> Trained:
        """Trains every client of the task with the method's own step; raises Diverged. See `Federation.iterate`."""
        return self._checked(task, OwnStep(step))

    @torch.no_grad()
    def measure(self, task: Pass, measurement: Measurement) -> Bundle:
        """Adds up a measurement over every client's images, as stacks [n, …]. See `Federation.measure`."""
        with self._timed(task):
            return Bundle(self._measure(task, measurement))

    @torch.no_grad()
    def collect(self, task: Pass, function: Measurement) -> list[Bundle]:
        """A value for every image, one client after the other: results differ in length. See `Federation.collect`."""
        found = []
        with self._timed(task):
            for position in range(len(task.ids)):
                parts = self._batchwise(task, position, function)
                found.append(Bundle({name: torch.cat([part[name] for part in parts]) for name in parts[0]}))
        return found

    @torch.no_grad()
    def _checked(self, task: Pass, solver: Solver) -> Trained:
        with self._timed(task):
            trained = self._walk(task, solver)
            finite = trained.loss.isfinite() | (trained.steps == 0)
            _demand(task, finite, "the training loss")
            for t in leaves(trained.theta):  # the last step itself may be the one that leaps
                finite = finite & t.reshape(len(t), -1).sum(dim=1).isfinite()  # a sum is a quarter of the work
            _demand(task, finite, "the model")
        return trained

    def _batchwise(self, task: Pass, position: int, function: Measurement) -> list[Mapping[str, Tensor]]:
        """What a function gives for each batch of one client's images; without any it is called once, with none."""
        at, theta = task.at(row(task.clients, position), None), held(task.theta, position)
        batches = task.images[task.ids[position]].split(task.batch_size)
        return [function(theta, task.data.batch(index), at) for index in batches]

    @contextmanager
    def _timed(self, task: Pass) -> Iterator[None]:
        start = _now(task)
        yield
        self.seconds += _now(task) - start

    @abstractmethod
    def _walk(self, task: Pass, solver: Solver) -> Trained:
        """All epochs of all clients."""

    @abstractmethod
    def _measure(self, task: Pass, measurement: Measurement) -> dict[str, Tensor]:
        """All images of all clients."""


def held(stack: Any, position: int) -> Any:
    """One client's own copy of its row; convolutions are fastest with their channels last."""

    def own(t: Tensor) -> Tensor:
        return t.clone(memory_format=torch.channels_last if t.dim() == 4 else torch.contiguous_format)

    return tree_map(own, row(stack, position))


def _now(task: Pass) -> float:
    """Seconds, once all that was started is done: a GPU's kernels run behind the program."""
    if task.data.labels.is_cuda:
        torch.cuda.synchronize(task.data.labels.device)
    return time.perf_counter()


def _demand(task: Pass, finite: Tensor, what: str) -> None:
    if not finite.all():
        raise Diverged(task.round, f"{what} of client {task.ids[int((~finite).nonzero()[0])]}")
