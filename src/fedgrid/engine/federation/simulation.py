"""Everything that is constant during a cell."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
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
    new_clients: frozenset[int] = frozenset()
    "Numbers, as users know them, of the clients that join after the last round."
    malicious: frozenset[int] = frozenset()
    "Those of the clients that attack; see `fedgrid.engine.federation.malicious`."
    reads: set[str] = field(default_factory=set, repr=False, compare=False)
    "What has read the number of rounds so far, in words; while nothing has, a longer run would have the same state."

    @property
    def noting_reads(self) -> Training:
        """The same settings as methods see them; whether the number of rounds is read is noted in `reads`."""
        return cast(Training, _NotingReads(self.training, self.reads))

    @cached_property
    def members(self) -> np.ndarray:
        """Ascending numbers of the clients that can take part: those with training images that are not new."""
        return self._without(self.new_clients, self.data.with_images)

    @cached_property
    def scored(self) -> np.ndarray:
        """Ascending numbers of the clients whose models are scored between rounds: all but new and malicious ones."""
        return self._without(self.new_clients | self.malicious, np.arange(self.data.clients))

    def _without(self, excluded: frozenset[int], clients: np.ndarray) -> np.ndarray:
        if not excluded:
            return clients
        return np.array([i for i in clients.tolist() if self.data.number(i) not in excluded], dtype=np.int64)

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
