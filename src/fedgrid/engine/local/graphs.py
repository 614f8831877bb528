"""Kernels that are captured once and started again in one launch: CUDA graphs."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


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
"""Captures work on memory, which is then as it was; raises RuntimeError where work waits for the device.

A graph knows addresses: what work reads must be kept as long as the graph is."""
