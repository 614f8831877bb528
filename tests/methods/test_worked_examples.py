"""The representation methods on examples of a few numbers, worked out in float64 without fedgrid's code."""

import numpy as np
import pytest
import torch
from nearness import near_printed as near
from plane import at

from fedgrid.engine.local.context import Batch
from fedgrid.engine.rounds import federate
from fedgrid.methods.common.prototypes import class_moments
from fedgrid.methods.common.quadratic import minimum_on_simplex
from fedgrid.suite import simulations
from fedgrid.tree import Tree

BOTH = torch.tensor([True, True])


# FedProto: three clients, the second without class 1

EQUAL, COUNTED = [[3.0, 2.0], [1.0, 2.0]], [[2.666667, 2.333333], [1.5, 1.0]]


@pytest.mark.parametrize(
    ("prototypes", "z", "predicted"),
    [(EQUAL, [1.8, 1.0], 1), (COUNTED, [1.8, 1.0], 1), (EQUAL, [2.0, 1.5], 0), (COUNTED, [2.0, 1.5], 1)],
)
def test_fedproto_predicts_the_nearest_prototype(prototypes, z, predicted):
    given = at(server={"prototypes": torch.tensor(prototypes), "known": BOTH})
    head = {"head.weight": torch.zeros(2, 2), "head.bias": torch.zeros(2)}
    scores = simulations.method("fedproto").predict(head, torch.tensor([z]), given)
    assert scores.argmax(dim=1).item() == predicted


def test_fedproto_never_predicts_a_class_without_clients():
    given = at(server={"prototypes": torch.zeros(2, 2), "known": torch.tensor([False, True])})
    head = {"head.weight": torch.zeros(2, 2), "head.bias": torch.tensor([9.0, 0.0])}
    assert simulations.method("fedproto").predict(head, torch.ones(1, 2), given).argmax(dim=1).item() == 1
    scores = simulations.method("fedproto").predict(head, torch.full((1, 2), 3.0), given)
    near(scores, [[-19.0, -18.0]], 1e-5)  # farther than the farthest known one, and not infinitely far
    none = at(server={"prototypes": torch.zeros(2, 2), "known": ~BOTH})
    assert simulations.method("fedproto").predict(head, torch.ones(1, 2), none).argmax(dim=1).item() == 0  # by its head


# FedPAC: three clients with 3, 3 and 4 representations

CLIENTS = (
    ([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]], [0, 0, 1]),
    ([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]], [0, 1, 1]),
    ([[1.0, 1.0], [1.0, 3.0], [1.0, 2.0], [1.0, 2.0]], [1, 1, 1, 1]),
)
ALPHA = [[0.676471, 0.323529, 0.0], [0.332257, 0.370990, 0.296753], [0.0, 0.044190, 0.955810]]


class Three:
    """As much of a federation as FedPAC's weights look at."""

    counts = torch.tensor([[2.0, 1.0], [1.0, 2.0], [0.0, 4.0]]).double()

    def upload(self, stack, mask=None):
        return stack


def actual(chosen=(0, 1, 2)):
    rows = [
        class_moments(Tree(), Batch(torch.tensor(CLIENTS[i][0]), torch.tensor(CLIENTS[i][1])), at()) for i in chosen
    ]
    return Tree({name: torch.stack([row[name] for row in rows]) for name in rows[0]})


def test_fedpac_combines_heads_as_in_the_worked_example():
    near(simulations.method("fedpac", cutoff=0.0).weights(Three(), actual()), ALPHA, 2e-6)
    near(simulations.method("fedpac", cutoff=0.0, solver="cvxpy").weights(Three(), actual()), ALPHA, 2e-4)
    cut = simulations.method("fedpac", cutoff=0.1).weights(Three(), actual())
    near(cut[2], [0.0, 0.0, 1.0])


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


# FedGH


def test_fedgh_without_a_server_step_keeps_its_head():
    simulation = simulations.ragged()
    head = federate(simulations.method("fedgh", server_lr=0.0), simulation).progress.state.server.head
    assert all(torch.equal(head[name], t) for name, t in simulation.model.initial(0).items() if name in head)
