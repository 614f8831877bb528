"""The executor that starts the kernels of a step of all clients at once, as a captured CUDA graph.

On a GPU a step of a small network is hundreds of launches, which take longer than the work. Here a training of a given
form runs as in `Stacked` when it is seen for the first time; later ones are computed in memory of their own, by graphs
that are captured once for each number of lanes and each size of batches. A step has a lane for each client that still
has a batch; so that there are few graphs, some lanes more may compute in vain, beside the others.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.local.devices import flat, sent
from fedgrid.engine.local.executor import Trained, TrainingStats
from fedgrid.engine.local.frozen import Key, NotFrozen, form_of, key_of
from fedgrid.engine.local.grouping import Group, PlannedGroup, planned
from fedgrid.engine.local.solvers import Descent, Solver
from fedgrid.engine.local.stacked import Stacked, advance, fits
from fedgrid.engine.local.task import LocalTask
from fedgrid.errors import UserError
from fedgrid.tree import Tree, leaves, tree_map

NUMBERS_OF_CLIENTS = 8
"Graphs of one size of batches: a step has lanes for a multiple of an eighth of the clients."
MOST = 16
"Forms of training that are kept, each with its memory; others run as in `Stacked`."


class Graph(Protocol):
    """Kernels that were captured."""

    def replay(self) -> None:
        """Starts them all, on the same memory."""


class CudaGraph:
    """A graph of CUDA; all graphs of a process share the memory of what lies between their ends."""

    pool: Any = None

    def __init__(self, work: Callable[[], None], memory: Sequence[Tensor]):
        CudaGraph.pool = CudaGraph.pool or torch.cuda.graph_pool_handle()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=CudaGraph.pool):
            work()

    def replay(self) -> None:
        self.graph.replay()


Capture = Callable[[Callable[[], None], Sequence[Tensor]], Graph]
"Captures work on memory, which is then as it was."


class Captured(Stacked):
    """As `Stacked`, to rounding; forms that it cannot capture are trained there, and counted."""

    def __init__(self, chunk: int | None = None, capture: Capture = CudaGraph):
        super().__init__(chunk)
        self.capture, self.places = capture, dict[Key, Place]()
        self.counts: Counter[str] = Counter()

    def _walk(self, task: LocalTask, solver: Solver) -> Trained:
        key = self._key(task, solver) if fits(task, self.chunk) else None
        if key is None or (key not in self.places and len(self.places) >= MOST):
            return self._uncaptured(task, solver)
        if key not in self.places:  # it may never come again; if it does, its operators are warm
            self.counts["first"] += 1
            trained = super()._walk(task, solver)
            self.places[key] = Place(task, solver, list(trained.mean), self.capture)
            return trained
        place = self.places[key]
        if place.lanes < len(task.ids):
            place = self.places[key] = replace(place, task=task)
        try:
            trained = place.trained(task)
        except NotFrozen:
            place.works = False
            return self._uncaptured(task, solver)
        self.counts["replayed"] += 1
        if not _is_ours(solver) and self.counts["replayed"].bit_count() == 1:
            _compare(trained, super()._walk(task, solver))
        return trained

    def _uncaptured(self, task: LocalTask, solver: Solver) -> Trained:
        self.counts["not captured"] += 1
        return super()._walk(task, solver)

    def _key(self, task: LocalTask, solver: Solver) -> Key | None:
        """All that a graph of the training freezes; None where that cannot be told."""
        settings = (solver.optimizer, solver.part) if isinstance(solver, Descent) else ()
        try:
            held = key_of(_function(solver), vars(task.data.pixels).values())
        except NotFrozen:
            return None
        stacks = [form_of(tree_map(lambda t: t[:1], tree)) for tree in (task.theta, task.clients)]
        return held, settings, *stacks, form_of(task.server), task.together, task.model.modality


def _function(solver: Solver) -> Any:
    """What the method gave."""
    return solver.loss if isinstance(solver, Descent) else vars(solver)["step"]


def _is_ours(solver: Solver) -> bool:
    """Whether fedgrid's tests have captured the method."""
    return str(getattr(_function(solver), "__module__", "")).startswith("fedgrid.")


def _compare(replayed: Trained, computed: Trained) -> None:
    """Raises UserError where a replay gives other numbers than a computation step by step."""
    for one, other in zip(leaves(replayed.theta), leaves(computed.theta), strict=True):
        tolerance = torch.finfo(one.dtype).eps ** 0.5 if one.is_floating_point() else 0.0
        if not torch.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
            raise UserError(
                "this method's loss or step depends on something that changes from round to round and is neither in "
                "the state nor an argument, so that its steps cannot be captured; choose the executor 'stacked'"
            )


@dataclass
class Place:
    """The memory in which trainings of one form are computed, and the graphs that work on it."""

    task: LocalTask
    "The first one of the form."
    solver: Solver
    means: Sequence[str]
    "Names of the quantities that the loss names."
    capture: Capture
    graphs: dict[tuple[int, ...], tuple[Graph, Tensor, Tensor]] = field(default_factory=dict, init=False)
    "By lanes and sizes of batches: a graph, its rows and keys [2 · lanes], and its images."
    works: bool = field(default=True, init=False)
    "False once something could not be captured."

    def __post_init__(self) -> None:
        device = self.task.data.labels.device
        self.lanes = len(self.task.ids)
        spare = self.lanes + 1  # the last row is written by lanes that compute in vain

        def room(tree: Any) -> Any:
            return tree_map(lambda t: t.new_zeros(spare, *t.shape[1:]), tree)

        self.theta, self.clients = room(self.task.theta), room(self.task.clients)
        self.server = _with_tensors(self.task.server, torch.clone)
        self.memory, self.stats = self.solver.memory(self.theta), TrainingStats(spare, device)
        names = [("loss",), ("images",), *((kind, name) for kind in ("sums", "samples") for name in self.means)]
        self.stats.totals = {name: torch.zeros(spare, dtype=torch.float64, device=device) for name in names}
        self.still = replace(self.task, server=self.server)

    @property
    def _all(self) -> list[Tensor]:
        """All memory that graphs change."""
        return [*leaves(self.theta), *leaves(self.memory), self.stats.steps, *self.stats.totals.values()]

    def trained(self, task: LocalTask) -> Trained:
        """What local training of a task of the form gives back."""
        if not self.works:
            raise NotFrozen
        order, plan = planned(task, range(len(task.ids)))
        lanes = [self._lanes(len(group.rows)) for group in plan]
        padded = [_padded(group, number, self.lanes) for group, number in zip(plan, lanes, strict=True)]
        opened = [group.opened for group in plan]
        where, places, *others = sent(
            [order, flat([images for _, images in padded]), *opened, *(rows for rows, _ in padded)],
            task.data.labels.device,
        )
        images = task.pool[places].split([len(images) for _, images in padded])
        self._fill(task, where)
        for number, group in enumerate(plan):
            if len(group.opened):
                self.stats.open(others[number])
            sizes = tuple(index.shape[1] for index in group.index)
            self._replay(lanes[number], sizes, others[len(plan) + number], images[number])
        return self._result(where)

    def _lanes(self, clients: int) -> int:
        """Lanes for so many clients, so that there are few numbers of them."""
        step = -(-self.lanes // NUMBERS_OF_CLIENTS)
        return min(self.lanes, -(-clients // step) * step)

    def _fill(self, task: LocalTask, where: Tensor) -> None:
        """Puts the clients at their start."""
        for ours, theirs in ((self.theta, task.theta), (self.clients, task.clients)):
            for memory, t in zip(leaves(ours), leaves(theirs), strict=True):
                memory[: len(where)] = t[where]
        for memory, t in zip(_tensors(self.server), _tensors(task.server), strict=True):
            memory.copy_(t)
        for t in (*leaves(self.memory), self.stats.steps, *self.stats.totals.values()):
            t.zero_()

    def _replay(self, lanes: int, sizes: tuple[int, ...], rows: Tensor, images: Tensor) -> None:
        if (lanes, *sizes) not in self.graphs:
            self.graphs[lanes, *sizes] = self._captured(lanes, sizes, rows, images)
        graph, its_rows, its_images = self.graphs[lanes, *sizes]
        its_rows.copy_(rows)
        its_images.copy_(images)
        graph.replay()

    def _captured(
        self, lanes: int, sizes: tuple[int, ...], rows: Tensor, images: Tensor
    ) -> tuple[Graph, Tensor, Tensor]:
        rows, images = rows.clone(), images.clone()
        parts = images.split([lanes * size for size in sizes])
        index = [part.view(lanes, size) for part, size in zip(parts, sizes, strict=True)]
        group = Group(rows[:lanes], index, rows[lanes:], None)

        def work() -> None:
            advance(self.still, self.solver, group, self.theta, self.clients, self.memory, self.stats)

        named = {*self.stats.totals}
        try:
            graph = self.capture(work, self._all)
        except RuntimeError as error:
            raise NotFrozen(str(error)) from error
        if named != {*self.stats.totals}:
            raise NotFrozen("a quantity that the loss did not name before")
        return graph, rows, images

    def _result(self, where: Tensor) -> Trained:
        """Copies of the clients' rows, in the order of the task."""
        clients = len(where)

        def ordered(t: Tensor) -> Tensor:
            return torch.empty_like(t[:clients]).index_copy_(0, where, t[:clients])

        stats = TrainingStats(clients, where.device)
        stats.steps = ordered(self.stats.steps)
        stats.totals = {name: ordered(total) for name, total in self.stats.totals.items()}
        return stats.close(tree_map(ordered, self.theta))


def _padded(group: PlannedGroup, lanes: int, spare: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows and keys [2 · lanes], images) of a step with lanes that compute in vain, on the row `spare`."""
    missing = lanes - len(group.rows)
    rows = np.concatenate([group.rows, np.full(missing, spare)])
    keys = np.concatenate([group.keys, np.zeros(missing, group.keys.dtype)])
    images = [np.concatenate([index, np.zeros((missing, index.shape[1]), index.dtype)]) for index in group.index]
    return np.concatenate([rows, keys]), flat(images)


def _tensors(tree: Any) -> list[Tensor]:
    return [t for t in leaves(tree) if isinstance(t, Tensor)]


def _with_tensors(tree: Any, function: Callable[[Tensor], Tensor]) -> Tree:
    """A tree with a function of its tensors; plain values stay as they are."""
    changed: Tree = tree_map(lambda t: function(t) if isinstance(t, Tensor) else t, tree)
    return changed
