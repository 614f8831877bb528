"""Kernels that are captured once and started again in one launch: CUDA graphs."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol
from weakref import WeakSet

import torch
from torch import Tensor


class Graph(Protocol):
    """Kernels that were captured."""

    def replay(self) -> None:
        """Starts them all, on the same memory."""


class CudaGraph:
    """A graph of CUDA; all graphs of a process share the memory of what lies between their ends, their pool."""

    pool: ClassVar[Any] = None
    sharing: ClassVar["WeakSet[CudaGraph]"] = WeakSet()
    "Graphs that have the pool. A pool ends with the last of them, and cannot be captured into again."
    failed: ClassVar[list[torch.cuda.CUDAGraph]] = []
    "Captures that failed. They are kept, since torch's allocator goes on asking them whether they have ended."

    def __init__(self, work: Callable[[], None], memory: Sequence[Tensor]):
        if not CudaGraph.sharing:
            CudaGraph.pool = torch.cuda.graph_pool_handle()
        self.graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(self.graph, pool=CudaGraph.pool):
                work()
        except RuntimeError:
            CudaGraph.failed.append(self.graph)
            CudaGraph.sharing.clear()  # whose pool still counts as captured into
            raise
        CudaGraph.sharing.add(self)

    def replay(self) -> None:
        self.graph.replay()


Capture = Callable[[Callable[[], None], Sequence[Tensor]], Graph]
"""Captures work on memory, which is then as it was; raises RuntimeError where work waits for the device.

A graph knows addresses: what work reads must be kept as long as the graph is."""
