"""Everything that is constant during a cell."""

from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def initial(self) -> Tree:
        """The common initial model θ⁰, in the type of the computation; never changed in place."""
        return tree_map(lambda t: t.to(self.device, dtype_of(self.training)), self.model.initial(self.seed))
