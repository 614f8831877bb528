"""What is asked of CUDA to capture graphs; the answers are made up."""

import gc
from contextlib import contextmanager
from itertools import count

import pytest
import torch

from fedgrid.engine.local.graphs import CudaGraph


class Card:
    """Gives out pools, and notes into which of them each graph was captured."""

    def __init__(self, patch):
        self.pools, self.captured = count(), []
        patch.setattr(torch.cuda, "graph_pool_handle", lambda: next(self.pools))
        patch.setattr(torch.cuda, "CUDAGraph", object)
        patch.setattr(torch.cuda, "graph", self.graph)
        patch.setattr(CudaGraph, "failed", [])
        CudaGraph.sharing.clear()

    @contextmanager
    def graph(self, graph, pool):
        self.captured.append(pool)
        yield


@pytest.fixture
def card(monkeypatch):
    return Card(monkeypatch)


def nothing():
    pass


def waits():
    raise RuntimeError("operation not permitted when stream is capturing")


def test_graphs_share_a_pool(card):
    graphs = [CudaGraph(nothing, []) for _ in range(3)]
    assert card.captured == [0, 0, 0] and len(graphs) == 3


def test_a_pool_ends_with_its_last_graph(card):
    first = CudaGraph(nothing, [])
    second = CudaGraph(nothing, [])
    del first
    gc.collect()
    third = CudaGraph(nothing, [])
    del second, third
    gc.collect()
    CudaGraph(nothing, [])
    assert card.captured == [0, 0, 0, 1]


def test_after_a_capture_that_failed_others_have_another_pool(card):
    before = CudaGraph(nothing, [])
    with pytest.raises(RuntimeError, match="not permitted"):
        CudaGraph(waits, [])
    after = [CudaGraph(nothing, []) for _ in range(2)]
    assert card.captured == [0, 0, 1, 1] and before is not after
    assert len(CudaGraph.failed) == 1
