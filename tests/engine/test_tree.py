"""Arithmetic of trees, and of stacks with a number for each row."""

import pytest
import torch

from fedgrid.tree import Tree, as_tree, placed, rows

STACK = Tree(w=torch.arange(12.0).reshape(2, 3, 2), b=torch.tensor([[1.0], [2.0]]))


def test_trees_are_added_and_scaled_entry_by_entry():
    actual = 2 * (STACK + STACK) - STACK / 2 - STACK * STACK
    for name, t in STACK.items():
        assert torch.equal(actual[name], 4 * t - t / 2 - t * t)


def test_weights_are_one_for_each_row():
    weights = torch.tensor([0.25, 1.0], dtype=torch.float64)
    for actual in (weights * STACK, STACK * weights):
        assert actual.w.dtype == torch.float32
        assert torch.equal(actual.w, torch.stack([0.25 * STACK.w[0], STACK.w[1]]))
        assert torch.equal(actual.b, torch.tensor([[0.25], [2.0]]))


def test_a_graph_mixes_rows():
    graph = torch.tensor([[0.5, 0.5], [0.0, 1.0]], dtype=torch.float64)
    assert (graph @ STACK).b.tolist() == [[1.5], [2.0]]
    assert torch.equal((graph @ STACK).w[0], (STACK.w[0] + STACK.w[1]) / 2)


def test_other_names_are_refused():
    with pytest.raises(ValueError, match="b in one of them"):
        STACK - Tree(w=STACK.w)


def test_entries_read_as_attributes_at_any_depth():
    state = as_tree({"theta": {"w": 1.0}})
    assert state.theta.w == 1.0 and isinstance(state | {"x": 2.0}, Tree)
    with pytest.raises(AttributeError, match="there is no 'phi' here, only: theta"):
        getattr(state, "phi")  # noqa: B009


@pytest.mark.parametrize("chosen", [torch.tensor([1]), torch.tensor([False, True])])
def test_rows_are_taken_and_put_back(chosen):
    assert torch.equal(rows(STACK, chosen).w, STACK.w[1:])
    after = placed(STACK, chosen, rows(STACK, chosen) * 0)
    assert after.b.tolist() == [[1.0], [0.0]] and STACK.b.tolist() == [[1.0], [2.0]]


def test_gradients_and_vmap_look_through_trees():
    slope = torch.func.grad(lambda t: t.w.square().sum() + t.b.sum())(STACK)
    assert isinstance(slope, Tree) and torch.equal(slope.w, 2 * STACK.w)
    doubled = torch.vmap(lambda t: t + t)(STACK)
    assert torch.equal(doubled.w, 2 * STACK.w)
