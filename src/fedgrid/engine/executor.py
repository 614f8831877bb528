"""The call behind which clients are trained: the same task for an executor that trains them one after the other and
for one that trains them together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from fedgrid.engine.data import ClientData
from fedgrid.engine.method import At, Batch, Objective
from fedgrid.models.base import Network
from fedgrid.randomness import generator
from fedgrid.settings import Training
from fedgrid.tree import Bundle, Tree

Loss = Callable[[Tree, Batch, At], Objective]
Step = Callable[[Tree, Batch, At], tuple[Tree, Objective]]
Measurement = Callable[[Tree, Batch, At], Mapping[str, Tensor]]


class Diverged(Exception):
    """Something is no finite number any more; `round_` counts from 0, the sentence from 1."""

    def __init__(self, round_: int, what: str):
        super().__init__(f"{what} is not finite in round {round_ + 1}")


@dataclass(frozen=True)
class Pass:
    """Clients that go through their own training images `epochs` times, each with its own parameters."""

    data: ClientData
    model: Network
    training: Training
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
    stream: str = "main"
    "Name of the batch order: the same name in a round gives the same batches."

    def batches(self, client: int, epoch: int) -> list[Tensor]:
        """The image indices of every batch of one epoch; the last batch may be smaller."""
        index = self.data.train[client]
        random = generator("batches", self.seed, client, self.round, epoch, self.stream)
        order = index.new_tensor(random.permutation(len(index)))
        return list(index[order].split(self.training.batch_size)) if len(index) else []


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


class Executor(Protocol):
    """Both executors give the same numbers, to rounding."""

    def train(self, task: Pass, loss: Loss, lr: float, part: str) -> Trained:
        """Trains every client of the task with the study's optimiser; raises Diverged."""

    def iterate(self, task: Pass, step: Step) -> Trained:
        """Trains every client of the task with the method's own step; raises Diverged."""

    def measure(self, task: Pass, measurement: Measurement) -> Bundle:
        """Adds up a measurement over every client's training images."""
