"""The executor that starts the kernels of a step of all clients at once, as a captured CUDA graph.

On a GPU a step of a small network is hundreds of launches, which take longer than the work. Here a training of a given
form runs as in `Stacked` when it is seen for the first time; later ones are computed in memory of their own, by graphs
that are captured once for each number of lanes and each size of batches. A step has a lane for each client that still
has a batch; so that there are few graphs, some lanes more may compute in vain, beside the others. A pass without
gradient is one graph, for the same images of the same clients.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from fedgrid.engine.local.executor import Trained
from fedgrid.engine.local.frozen import Key, NotFrozen, Same, form_of, is_tested, key_of
from fedgrid.engine.local.graphs import Capture, CudaGraph
from fedgrid.engine.local.passes import FINE
from fedgrid.engine.local.solvers import Descent, Solver
from fedgrid.engine.local.stacked import COPIES, Stacked, pieces
from fedgrid.engine.local.task import LocalTask, Measurement
from fedgrid.engine.local.workspaces import Numbers, PassWorkspace, TrainingWorkspace, bytes_of, numbers_of
from fedgrid.errors import UserError
from fedgrid.tree import Tree, leaves, tree_map

MOST, FRACTION = 16, 0.25
"Forms that are kept: those that were seen last, with at most a quarter of the memory that stacks may take."
EPS_OF_TF32 = 2.0**-10

Result = TypeVar("Result", Trained, dict[str, Tensor])


@dataclass
class Form:
    """What was seen of the trainings, or of the passes, of one key."""

    numbers: Numbers
    "Of the first one."
    sums: Mapping[str, Tensor]
    "What the first one added up, by name: a pass's result, or the means that a loss names."
    workspace: Any = None
    "A `TrainingWorkspace` or a `PassWorkspace`; none after the first one, and where it cannot be captured."
    replays: int = 0
    works: bool = True
    "False once something could not be captured."

    @property
    def size(self) -> int:
        """Bytes of its memory."""
        return self.workspace.size if self.workspace else 0

    def varying(self, numbers: Numbers) -> frozenset[int]:
        """Which numbers have not always been the same."""
        others = {name for name, value in numbers.items() if value != self.numbers[name]}
        return frozenset(others).union(self.workspace.varying if self.workspace else ())


class Captured(Stacked):
    """As `Stacked`, to rounding; forms that it cannot capture, or not rightly, are computed there, and counted."""

    def __init__(self, chunk: int | None = None, share: int = 1, capture: Capture = CudaGraph):
        super().__init__(chunk, share)
        self.capture, self.forms = capture, OrderedDict[Key, Form]()
        self.counts: Counter[str] = Counter()

    def remark(self) -> str:
        """How many trainings and passes were replayed, in words."""
        return f"replayed {self.counts['replayed']:,} of {self.counts.total():,} trainings and passes"

    def _walk(self, task: LocalTask, solver: Solver) -> Trained:
        numbers = numbers_of(task, solver)

        def replayed(form: Form, varying: frozenset[int]) -> Trained:
            workspace: TrainingWorkspace | None = form.workspace
            if workspace is None or workspace.varying != varying or workspace.lanes < len(task.ids):
                workspace = TrainingWorkspace(task, solver, list(form.sums), varying, self.capture)
                form.workspace = workspace
            return workspace.trained(task, numbers)

        fits = (self.chunk or self._fitting(task)) >= len(task.ids)
        key = self._key_of_training(task, solver) if fits else None
        return self._computed(task, key, numbers, partial(super()._walk, task, solver), replayed)

    def _summed(
        self, task: LocalTask, positions: list[int], measurement: Measurement, largest: int
    ) -> dict[str, Tensor]:
        def replayed(form: Form, varying: frozenset[int]) -> dict[str, Tensor]:
            workspace: PassWorkspace | None = form.workspace
            if workspace is None or workspace.varying != varying:
                parts = pieces(task, positions, measurement, largest, FINE)
                workspace = PassWorkspace(task, parts, measurement, form.sums, varying, self.capture)
                form.workspace = workspace
            return workspace.summed(task)

        key = self._key_of_pass(task, positions, measurement, largest)
        eager = partial(super()._summed, task, positions, measurement, largest)
        return self._computed(task, key, numbers_of(task), eager, replayed)

    def _computed(
        self,
        task: LocalTask,
        key: Key | None,
        numbers: Numbers,
        eager: Callable[[], Result],
        replayed: Callable[[Form, frozenset[int]], Result],
    ) -> Result:
        """A training or a pass: eager for the first time, then replayed where that is possible."""
        largest = FRACTION * self._room(task)
        if key is None or COPIES * bytes_of(leaves(task.theta), leaves(task.clients)) > largest:
            self.counts["not captured"] += 1
            return eager()
        form = self.forms.get(key)
        if form is None:  # it may never come again; if it does, its operators are warm
            self.counts["first"] += 1
            result = eager()
            self.forms[key] = Form(numbers, result.mean if isinstance(result, Trained) else result)
            self._forget(largest)
            return result
        self.forms.move_to_end(key)
        if form.works:
            try:
                result = replayed(form, form.varying(numbers))
            except NotFrozen:
                form.works, form.workspace = False, None
            self._forget(largest)
        if not form.works:
            self.counts["not captured"] += 1
            return eager()
        return self._checked_replay(form, key, result, eager)

    def _checked_replay(self, form: Form, key: Key, result: Result, eager: Callable[[], Result]) -> Result:
        """What was replayed; now and then it is compared with a computation step by step.

        Where the first replay differs, the form is never replayed again; a later one may have been wrong for a while.
        """
        form.replays += 1
        if _compared(form.replays, is_tested(key)) and not _agree(result, computed := eager()):
            if form.replays > 1:
                raise UserError(
                    "a loss, step or measurement of this method depends on something that changes from round to round "
                    "and is neither in the state nor an argument, so that it cannot be captured; choose the executor "
                    "'stacked'"
                )
            form.works, form.workspace = False, None
            self.counts["not captured"] += 1
            return computed
        self.counts["replayed"] += 1
        return result

    def _forget(self, largest: float) -> None:
        """Drops the forms that were not seen for longest, until there are few, of at most so many bytes."""
        while len(self.forms) > MOST or sum(form.size for form in self.forms.values()) > largest:
            self.forms.popitem(last=False)

    def _key_of_training(self, task: LocalTask, solver: Solver) -> Key | None:
        """All that the graphs of a training freeze; None where that cannot be told."""
        settings: Key = ()
        if isinstance(solver, Descent):
            settings = (solver.optimizer.but(lr=0.0), solver.part)
        function = solver.loss if isinstance(solver, Descent) else vars(solver)["step"]
        one = [tree_map(lambda t: t[:1], tree) for tree in (task.theta, task.clients)]
        return _key(task, function, one, ("training", settings, task.together))

    def _key_of_pass(self, task: LocalTask, positions: list[int], measurement: Measurement, largest: int) -> Key | None:
        """The same of the graph of a pass."""
        images = (Same(task.images), tuple(task.ids), tuple(positions), largest, task.batch_size)
        return _key(task, measurement, [task.theta, task.clients], ("pass", images))


def _key(task: LocalTask, function: Any, stacks: list[Tree], others: Key) -> Key | None:
    try:
        held = key_of(function, [task.data, task.data.pixels, *vars(task.data.pixels).values()])
    except NotFrozen:
        return None
    return (*held, *map(form_of, stacks), form_of(task.server), task.model.modality, *others)


def _compared(replays: int, tested: bool) -> bool:
    """Replays 1, 2, 4, 8, … are compared, and 1, 16, 256, … of code that the tests have captured."""
    doublings = replays.bit_length() - 1
    return replays == 1 << doublings and (not tested or doublings % 4 == 0)


def _agree(replayed: Result, computed: Result) -> bool:
    """Whether a replay gives the numbers of a computation step by step, to what rounding makes of them."""
    return all(
        torch.allclose(one, other, rtol=_tolerance(one), atol=_tolerance(one), equal_nan=True)
        for one, other in zip(_numbers(replayed), _numbers(computed), strict=True)
    )


def _tolerance(t: Tensor) -> float:
    if not t.is_floating_point():
        return 0.0
    coarse = torch.backends.cuda.matmul.allow_tf32 and t.dtype == torch.float32
    return math.sqrt(EPS_OF_TF32 if coarse else torch.finfo(t.dtype).eps)


def _numbers(result: Trained | dict[str, Tensor]) -> list[Tensor]:
    """What is compared of a result; sums of a pass are kept in more digits than they are computed in."""
    return leaves(result.theta) if isinstance(result, Trained) else [t.float() for t in result.values()]
