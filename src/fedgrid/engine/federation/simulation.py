"""Everything that is constant during a cell."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import torch

from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.executor import Executor
from fedgrid.models.base import Network
from fedgrid.settings import Training
from fedgrid.tree import Tree, tree_map


def dtype_of(training: Training) -> torch.dtype:
    """Type of parameters, losses and averages; `bfloat16-mixed` concerns the layers of networks alone."""
    return torch.float64 if training.dtype == "float64" else torch.float32


@dataclass(frozen=True)
class Simulation:
    """Everything that is constant during a cell."""

    data: ClientData
    model: Network
    training: Training
    executor: Executor
    seed: int
    device: torch.device
    reads: set[str] = field(default_factory=set, repr=False, compare=False)
    "What has read the number of rounds so far, in words; while nothing has, a longer run would have the same state."

    @property
    def noting_reads(self) -> Training:
        """The same settings as methods see them; whether the number of rounds is read is noted in `reads`."""
        return cast(Training, _NotingReads(self.training, self.reads))

    @cached_property
    def initial(self) -> Tree:
        """The common initial model θ⁰, in the type of the computation; never changed in place."""
        return tree_map(lambda t: t.to(self.device, dtype_of(self.training)), self.model.initial(self.seed))


class _NotingReads:
    def __init__(self, training: Training, reads: set[str]):
        self._training, self._reads = training, reads

    def __getattr__(self, name: str) -> Any:
        if name == "rounds":
            self._reads.add("the method depends on the number of rounds")
        return getattr(self._training, name)
