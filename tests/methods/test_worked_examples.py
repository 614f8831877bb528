"""The representation methods on examples of a few numbers, worked out in float64 without fedgrid's code."""

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.rounds import federate
from fedgrid.methods.common.heads import fit
from fedgrid.methods.common.prototypes import aggregate, class_moments
from fedgrid.methods.common.quadratic import minimum_on_simplex
from fedgrid.models.base import Network
from fedgrid.suite import simulations
from fedgrid.tree import Tree

BOTH = torch.tensor([True, True])


class Plane(Network):
    """Representations of two numbers are the images themselves."""

    def __init__(self):
        super().__init__({"extractor": nn.Flatten(), "head": nn.Linear(2, 2)}, 2, 2)


def near(ours, expected, tolerance=1e-5):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(ours.double(), expected, rtol=0, atol=tolerance)


# FedProto: three clients, the second without class 1

MEANS = torch.tensor([[[1.0, 2.0], [0.0, 4.0]], [[3.0, 0.0], [0.0, 0.0]], [[5.0, 4.0], [2.0, 0.0]]])
COUNTS = torch.tensor([[30.0, 10.0], [10.0, 0.0], [20.0, 30.0]]).double()
EQUAL, COUNTED = [[3.0, 2.0], [1.0, 2.0]], [[2.666667, 2.333333], [1.5, 1.0]]


@pytest.mark.parametrize(("counts", "expected"), [((COUNTS > 0).double(), EQUAL), (COUNTS, COUNTED)])
def test_prototypes_of_three_clients(counts, expected):
    near(aggregate(MEANS, counts, torch.zeros(2, 2), ~BOTH)[0], expected)


@pytest.mark.parametrize(
    ("prototypes", "value", "slope"),
    [
        (EQUAL, 0.5, [[-0.5, 0.0], [0.0, -0.5]]),
        (COUNTED, 0.201389, [[-0.333333, -0.166667], [-0.25, 0.0]]),
    ],
)
def test_fedproto_pulls_by_the_mean_square(prototypes, value, slope):
    z = torch.tensor([[2.0, 2.0], [1.0, 1.0]]).requires_grad_()
    at = LossContext(Plane(), Tree(prototypes=torch.tensor(prototypes), known=BOTH), Tree(), None)
    head = {"head.weight": torch.zeros(2, 2), "head.bias": torch.zeros(2)}
    pulled, free = (
        simulations.method("fedproto", lam=lam).loss(head, Batch(z, torch.tensor([0, 1])), at) for lam in (1.0, 0.0)
    )
    near(pulled - free, value)
    near(torch.autograd.grad(pulled - free, z)[0], slope)


@pytest.mark.parametrize(
    ("prototypes", "z", "predicted"),
    [(EQUAL, [1.8, 1.0], 1), (COUNTED, [1.8, 1.0], 1), (EQUAL, [2.0, 1.5], 0), (COUNTED, [2.0, 1.5], 1)],
)
def test_fedproto_predicts_the_nearest_prototype(prototypes, z, predicted):
    at = LossContext(Plane(), Tree(prototypes=torch.tensor(prototypes), known=BOTH), Tree(), None)
    head = {"head.weight": torch.zeros(2, 2), "head.bias": torch.zeros(2)}
    scores = simulations.method("fedproto").predict(head, torch.tensor([z]), at)
    assert scores.argmax(dim=1).item() == predicted


def test_fedproto_never_predicts_a_class_without_clients():
    at = LossContext(Plane(), Tree(prototypes=torch.zeros(2, 2), known=torch.tensor([False, True])), Tree(), None)
    head = {"head.weight": torch.zeros(2, 2), "head.bias": torch.tensor([9.0, 0.0])}
    assert simulations.method("fedproto").predict(head, torch.ones(1, 2), at).argmax(dim=1).item() == 1
    scores = simulations.method("fedproto").predict(head, torch.full((1, 2), 3.0), at)
    near(scores, [[-19.0, -18.0]])  # farther than the farthest known one, and not infinitely far
    none = LossContext(Plane(), Tree(prototypes=torch.zeros(2, 2), known=~BOTH), Tree(), None)
    assert simulations.method("fedproto").predict(head, torch.ones(1, 2), none).argmax(dim=1).item() == 0  # by its head


# FedPAC: three clients with 3, 3 and 4 representations

CLIENTS = (
    ([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]], [0, 0, 1]),
    ([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]], [0, 1, 1]),
    ([[1.0, 1.0], [1.0, 3.0], [1.0, 2.0], [1.0, 2.0]], [1, 1, 1, 1]),
)
ALPHA = [[0.676471, 0.323529, 0.0], [0.332257, 0.370990, 0.296753], [0.0, 0.044190, 0.955810]]
OBJECTIVES = [0.551198, 0.302288, 0.119476]


class Three:
    """As much of a federation as FedPAC's weights look at."""

    counts = torch.tensor([[2.0, 1.0], [1.0, 2.0], [0.0, 4.0]]).double()

    def upload(self, stack, mask=None):
        return stack


def actual(chosen=(0, 1, 2)):
    at = LossContext(Plane(), Tree(), Tree(), None)
    rows = [class_moments(Tree(), Batch(torch.tensor(CLIENTS[i][0]), torch.tensor(CLIENTS[i][1])), at) for i in chosen]
    return Tree({name: torch.stack([row[name] for row in rows]) for name in rows[0]})


def test_fedpac_combines_heads_as_in_the_worked_example():
    near(simulations.method("fedpac", cutoff=0.0).weights(Three(), actual()), ALPHA, 2e-6)
    near(simulations.method("fedpac", cutoff=0.0, solver="cvxpy").weights(Three(), actual()), ALPHA, 2e-4)
    cut = simulations.method("fedpac", cutoff=0.1).weights(Three(), actual())
    near(cut[2], [0.0, 0.0, 1.0])


def test_fedpac_weighs_two_clients_in_closed_form():
    two = Three()
    two.counts = Three.counts[:2]
    near(simulations.method("fedpac").weights(two, actual((0, 1)))[0], [0.676471, 1 - 0.676471])


def test_fedpac_objectives():
    h = actual().sums.double() / Three.counts.sum(dim=1).reshape(-1, 1, 1)
    v = torch.tensor([0.814815, 0.814815, 0.125])
    near(h, [[[1.333333, 0], [0, 0.666667]], [[0.666667, 0], [0, 1.333333]], [[0, 0], [1, 2]]])
    for own, alpha, objective in zip(h, ALPHA, OBJECTIVES, strict=True):
        alpha = torch.tensor(alpha).double()
        bias = torch.einsum("j,jck->ck", alpha, own - h).square().sum()
        near((v * alpha.square()).sum() + bias, objective)


def test_a_client_alone_or_with_equals():
    method, alone = simulations.method("fedpac"), Three()
    alone.counts = Three.counts[:1]
    near(method.weights(alone, actual((0,))), [[1.0]])
    alone.counts = Three.counts[[0, 0]]
    near(method.weights(alone, actual((0, 0))), [[0.5, 0.5]] * 2)


# The quadratic programme


def brute(matrix, steps=60):
    """The smallest value on a grid of the simplex of three."""
    ticks = np.arange(steps + 1) / steps
    grid = [(a, b, 1 - a - b) for a in ticks for b in ticks if a + b <= 1 + 1e-9]
    return min(np.asarray(w) @ matrix @ np.asarray(w) for w in grid)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("clients", "rank"), [(1, 1), (3, 3), (3, 1), (20, 20), (50, 4)])
def test_the_minimum_is_the_one_that_cvxpy_finds(clients, rank, seed):
    random = np.random.default_rng(seed)
    root = random.normal(size=(clients, rank))
    matrix = torch.from_numpy(root @ root.T + np.diag(random.uniform(0, 0.1, clients)))
    exact, reference = (minimum_on_simplex(matrix, solver) for solver in ("exact", "cvxpy"))
    assert exact.dtype == torch.float64 and (exact >= 0).all()
    near(exact.sum(), 1.0, 1e-12)
    ours, theirs = (float(w @ matrix @ w) for w in (exact, reference))
    assert ours <= theirs + 1e-9 * (1 + abs(theirs))
    near(exact, reference, 1e-3)
    # optimality: no vertex is downhill
    slope = matrix @ exact
    assert (slope >= exact @ slope - 1e-9 * matrix.abs().max()).all()
    if clients == 3:
        assert ours <= brute(matrix.numpy()) + 1e-9


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (np.zeros((3, 3)), [1 / 3] * 3),
        (np.diag([0.0, 1.0]), [1.0, 0.0]),
        (np.diag([1.0, 3.0]), [0.75, 0.25]),
        (np.diag([1e-30, 3e-30]), [0.75, 0.25]),
        (np.diag([1e30, 3e30]), [0.75, 0.25]),
        (np.ones((2, 2)), [0.5, 0.5]),
    ],
)
def test_degenerate_programmes_have_a_solution(matrix, expected):
    near(minimum_on_simplex(torch.from_numpy(matrix)), expected, 1e-9)


def test_a_programme_that_is_no_number_has_no_solution():
    assert minimum_on_simplex(torch.tensor([[1.0, torch.nan], [torch.nan, 1.0]])).isnan().all()


# FedGH's server

PAIRS = torch.tensor([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]]), torch.tensor([0, 1, 0])


@pytest.mark.parametrize(
    ("size", "row", "bias"),
    [(3, [0.05, -0.016667], 0.016667), (1, [0.150749, -0.054621], 0.047877)],
)
def test_fedgh_trains_its_head_in_batches(size, row, bias):
    head = Tree({"head.weight": torch.zeros(2, 2), "head.bias": torch.zeros(2)})
    fitted = fit(Plane(), head, *PAIRS, lr=0.1, size=size)
    near(fitted["head.weight"], [row, [-value for value in row]])
    near(fitted["head.bias"], [bias, -bias])


def test_fedgh_without_a_server_step_keeps_its_head():
    simulation = simulations.ragged()
    head = federate(simulations.method("fedgh", server_lr=0.0), simulation).progress.state.server.head
    assert all(torch.equal(head[name], t) for name, t in simulation.model.initial(0).items() if name in head)
