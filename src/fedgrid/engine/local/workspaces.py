"""The memory in which trainings or passes of one form are computed again and again, and the graphs that work on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.local.devices import flat, sent
from fedgrid.engine.local.executor import Trained, TrainingStats
from fedgrid.engine.local.frozen import NotFrozen
from fedgrid.engine.local.graphs import Capture, Graph
from fedgrid.engine.local.grouping import Group, PlannedGroup, planned
from fedgrid.engine.local.passes import Piece
from fedgrid.engine.local.solvers import Descent, Solver
from fedgrid.engine.local.stacked import advance, summed
from fedgrid.engine.local.task import LocalTask, Measurement
from fedgrid.tree import Tree, leaves, tree_map

NUMBERS_OF_CLIENTS = 8
"Graphs of one size of batches: a step has lanes for a multiple of an eighth of the clients."
RATE = -1
"Among the numbers of a training, the optimiser's rate; the others are counted from 0."

Numbers = dict[int, float]
"Python numbers that a form leaves open: those that the server sends, in their order, and the rate."
Planned = tuple[np.ndarray, list[PlannedGroup]]


def numbers_of(task: LocalTask, solver: Solver | None = None) -> Numbers:
    """The numbers of a training, or of a pass."""
    values: list[Any] = leaves(task.server)
    numbers: Numbers = dict(enumerate(value for value in values if isinstance(value, float)))
    return numbers | {RATE: solver.optimizer.lr} if isinstance(solver, Descent) else numbers


class Server:
    """What the server sends, in memory of its own; of its numbers, those that are `varying` are tensors there."""

    def __init__(self, server: Tree, varying: frozenset[int], device: torch.device):
        numbers = count()

        def own(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.clone()
            if isinstance(value, float) and next(numbers) in varying:
                return torch.tensor(value, dtype=torch.float64, device=device)
            return value

        self.tree: Tree = tree_map(own, server)

    def fill(self, server: Tree) -> None:
        """Takes over what another round's server sends."""
        for memory, value in zip(leaves(self.tree), leaves(server), strict=True):
            if isinstance(value, Tensor):
                memory.copy_(value)
            elif isinstance(memory, Tensor):
                memory.fill_(value)


class CapturedStep(NamedTuple):
    """The graph of a step, and where it reads its rows and keys [2 · lanes], and its images."""

    graph: Graph
    rows: Tensor
    images: Tensor


class TrainingWorkspace:
    """Trainings of one form, of at most as many clients as its first `task` has.

    The last row is written by lanes that compute in vain. `means` names the quantities that the loss names.
    """

    def __init__(
        self, task: LocalTask, solver: Solver, means: Sequence[str], varying: frozenset[int], capture: Capture
    ):
        device = task.data.labels.device
        self.lanes, self.varying, self.capture = len(task.ids), varying, capture
        self.theta, self.clients = (_room(tree, self.lanes + 1) for tree in (task.theta, task.clients))
        self.server = Server(task.server, varying, device)
        self.solver, self.rate = solver, None
        if isinstance(solver, Descent) and RATE in varying:
            kind = next(t.dtype for t in leaves(self.theta) if t.is_floating_point())
            self.rate = torch.zeros((), dtype=kind, device=device)
            self.solver = replace(solver, optimizer=solver.optimizer.but(rate=self.rate))
        self.memory, self.stats = solver.memory(self.theta), TrainingStats(self.lanes + 1, device)
        names = [("loss",), ("images",), *((kind, name) for kind in ("sums", "samples") for name in means)]
        zero = torch.zeros(self.lanes + 1, dtype=torch.float64, device=device)
        self.stats.totals = {name: zero.clone() for name in names}
        self.size = bytes_of(self._changing, leaves(self.clients), leaves(self.server.tree))
        self.graphs: dict[tuple[int, ...], CapturedStep] = {}
        self.still = replace(task, theta=self.theta, clients=self.clients, server=self.server.tree)
        self.ahead: tuple[Any, Planned] = (None, (np.zeros(0), []))
        "The plan of a round to come, and what it is the plan of."

    def trained(self, task: LocalTask, numbers: Numbers) -> Trained:
        """What local training of a task of the form gives back; NotFrozen where a step cannot be captured."""
        order, plan = self._planned(task)
        lanes = [self._lanes(len(group.rows)) for group in plan]
        padded = [_padded(group, number, self.lanes) for group, number in zip(plan, lanes, strict=True)]
        opened = [group.opened for group in plan]
        where, places, *others = sent(
            [order, flat([images for _, images in padded]), *opened, *(rows for rows, _ in padded)],
            task.data.labels.device,
        )
        images = task.pool[places].split([len(images) for _, images in padded])
        self._fill(task, where, numbers)
        for number, group in enumerate(plan):
            if len(group.opened):
                self.stats.open(others[number])
            sizes = tuple(index.shape[1] for index in group.index)
            self._step(lanes[number], sizes, others[len(plan) + number], images[number])
        self._plan_ahead(task)
        return self._result(where)

    def _planned(self, task: LocalTask) -> Planned:
        whose, plan = self.ahead
        return plan if whose == _order_of(task) else planned(task, range(len(task.ids)))

    def _plan_ahead(self, task: LocalTask) -> None:
        """Plans the next round while the device computes this one, in case that it has the same clients."""
        if len(task.ids) == self.lanes and not task.work:
            following = replace(task, round=task.round + 1)
            self.ahead = _order_of(following), planned(following, range(self.lanes))

    def _lanes(self, clients: int) -> int:
        """Lanes for so many clients, so that there are few numbers of them."""
        step = -(-self.lanes // NUMBERS_OF_CLIENTS)
        return min(self.lanes, -(-clients // step) * step)

    def _fill(self, task: LocalTask, where: Tensor, numbers: Numbers) -> None:
        """Puts the clients at their start."""
        for ours, theirs in ((self.theta, task.theta), (self.clients, task.clients)):
            for memory, t in zip(leaves(ours), leaves(theirs), strict=True):
                memory[: len(where)] = t[where]
        self.server.fill(task.server)
        if self.rate is not None:
            self.rate.fill_(numbers[RATE])
        for t in self._summed:
            t.zero_()

    @property
    def _summed(self) -> list[Tensor]:
        """What is zero at the start, and adds up from step to step."""
        return [*leaves(self.memory), self.stats.steps, *self.stats.totals.values()]

    @property
    def _changing(self) -> list[Tensor]:
        """All memory that graphs change."""
        return [*leaves(self.theta), *self._summed]

    def _step(self, lanes: int, sizes: tuple[int, ...], rows: Tensor, images: Tensor) -> None:
        if (lanes, *sizes) not in self.graphs:
            self.graphs[lanes, *sizes] = self._captured(lanes, sizes, rows.clone(), images.clone())
        step = self.graphs[lanes, *sizes]
        step.rows.copy_(rows)
        step.images.copy_(images)
        step.graph.replay()

    def _captured(self, lanes: int, sizes: tuple[int, ...], rows: Tensor, images: Tensor) -> CapturedStep:
        parts = images.split([lanes * size for size in sizes])
        index = [part.view(lanes, size) for part, size in zip(parts, sizes, strict=True)]
        group = Group(rows[:lanes], index, rows[lanes:], None)
        named = {*self.stats.totals}
        graph = captured(
            self.capture,
            lambda: advance(self.still, self.solver, group, self.theta, self.clients, self.memory, self.stats),
            self._changing,
        )
        if named != {*self.stats.totals}:
            raise NotFrozen("a quantity that the loss did not name before")
        return CapturedStep(graph, rows, images)

    def _result(self, where: Tensor) -> Trained:
        """Copies of the clients' rows, in the order of the task."""
        clients = len(where)

        def ordered(t: Tensor) -> Tensor:
            return torch.empty_like(t[:clients]).index_copy_(0, where, t[:clients])

        stats = TrainingStats(clients, where.device)
        stats.steps = ordered(self.stats.steps)
        stats.totals = {name: ordered(total) for name, total in self.stats.totals.items()}
        return stats.close(tree_map(ordered, self.theta))


class PassWorkspace:
    """Passes without gradient of one form, over the same images of the same clients, in these `pieces`."""

    def __init__(
        self,
        task: LocalTask,
        pieces: Sequence[Piece],
        measurement: Measurement,
        sums: Mapping[str, Tensor],
        varying: frozenset[int],
        capture: Capture,
    ):
        self.theta, self.clients = (tree_map(torch.clone, tree) for tree in (task.theta, task.clients))
        self.server = Server(task.server, varying, task.data.labels.device)
        self.varying = varying
        self.sums = {name: torch.zeros_like(total) for name, total in sums.items()}
        self.size = bytes_of(leaves(self.theta), leaves(self.clients), leaves(self.server.tree))
        self.pieces = pieces  # the graph reads their memory, but does not keep it
        self.still = replace(task, theta=self.theta, clients=self.clients, server=self.server.tree)
        clients = len(next(iter(sums.values())))

        def work() -> None:
            for name, total in summed(self.still, pieces, measurement, clients).items():
                self.sums[name].copy_(total)

        self.graph = captured(capture, work, list(self.sums.values()))

    def summed(self, task: LocalTask) -> dict[str, Tensor]:
        """Sums over all images of the clients, for a task of the form."""
        for ours, theirs in ((self.theta, task.theta), (self.clients, task.clients)):
            for memory, t in zip(leaves(ours), leaves(theirs), strict=True):
                memory.copy_(t)
        self.server.fill(task.server)
        self.graph.replay()
        return {name: total.clone() for name, total in self.sums.items()}


def bytes_of(*groups: Sequence[Any]) -> int:
    """Bytes of the tensors among some values."""
    tensors = [t for group in groups for t in group if isinstance(t, Tensor)]
    return sum(t.numel() * t.element_size() for t in tensors)


def captured(capture: Capture, work: Callable[[], None], memory: Sequence[Tensor]) -> Graph:
    """The graph of work on memory; NotFrozen where it cannot be captured."""
    try:
        return capture(work, memory)
    except RuntimeError as error:
        raise NotFrozen(str(error)) from error


def _room(tree: Tree, rows: int) -> Tree:
    """Zeros for so many rows of a stack."""
    return tree_map(lambda t: t.new_zeros(rows, *t.shape[1:]), tree)


def _order_of(task: LocalTask) -> tuple[Any, ...]:
    """All that the plan of a training depends on, within one form."""
    return task.round, task.ids, task.epochs, task.steps, task.share, task.stream, task.work


def _padded(group: PlannedGroup, lanes: int, spare: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows and keys [2 · lanes], images) of a step with lanes that compute in vain, on the row `spare`."""
    missing = lanes - len(group.rows)
    rows = np.concatenate([group.rows, np.full(missing, spare)])
    keys = np.concatenate([group.keys, np.zeros(missing, group.keys.dtype)])
    images = [np.concatenate([index, np.zeros((missing, index.shape[1]), index.dtype)]) for index in group.index]
    return np.concatenate([rows, keys]), flat(images)
