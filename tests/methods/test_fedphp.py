"""FedPHP: the discrepancy of features, the loss and the running average, on examples of a few numbers."""

import math
from types import SimpleNamespace

import pytest
import torch
from nearness import near_printed as near
from torch.nn.functional import cross_entropy

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.context import LossContext
from fedgrid.methods.fedphp import mmd
from fedgrid.suite import simulations
from fedgrid.tree import Tree

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
FLAT = torch.tensor([[0.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
RAISED = FLAT + torch.tensor([0.0, 1.0], dtype=torch.float64)


# The discrepancy


def test_discrepancy_of_two_pairs_of_vectors():
    near(mmd(FLAT, RAISED), 1.875444)
    near(mmd(RAISED, FLAT), 1.875444)
    near(mmd(FLAT, FLAT), 0.0, 1e-12)


def test_discrepancy_of_two_vectors():
    """Their distance is the bandwidth, whatever it is."""
    expected = 10 - 2 * sum(math.exp(-1 / scale) for scale in SCALES)
    for distance in (0.3, 40.0):
        near(mmd(torch.zeros(1, 3).double(), torch.full((1, 3), distance).double()), expected)
    assert mmd(torch.ones(1, 3), torch.ones(1, 3)) == 0


def test_bandwidth_is_a_constant_of_the_gradient():
    """Otherwise two vectors would have none."""
    z = torch.tensor([[0.5]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(mmd(z, torch.zeros(1, 1).double()), z)
    near(slope, [[2 * sum(math.exp(-1 / scale) * 2 * 0.5 / (scale * 0.25) for scale in SCALES)]], 1e-5)


def test_discrepancy_depends_on_differences_alone():
    """Far from the origin, float32 still tells distances."""
    moved = [t.float() / 3 + 1000.7 for t in (FLAT, RAISED)]
    near(mmd(*moved), 1.875444, 5e-3)


# The loss


def test_the_private_model_is_in_evaluation():
    """Its batch norm has its own statistics, that of the local model those of the batch."""
    simulation = simulations.ragged(2, norm="batch", dtype="float64")
    theta, network = everyone(simulation, 0).initial(), simulation.model
    private = theta.map(lambda t: 1.5 * t)
    batch = simulation.data.batch(simulation.data.train[0])
    at = LossContext(network.learning(3), Tree(), Tree(private=private), 3)
    z = network.learning(3).features(theta, batch.x)
    expected = 0.7 * cross_entropy(network.head(theta, z), batch.y) + 0.3 * mmd(z, network.features(private, batch.x))
    near(simulations.method("fedphp", lam=0.3).loss(theta, batch, at), expected, 1e-12)


# The running average


@pytest.mark.parametrize(
    ("rounds", "participation", "before", "expected"),
    [
        (100, 1.0, [0, 1, 50, 100, 200], [0.0, 0.009, 0.45, 0.9, 0.9]),
        (100, 0.29, [0, 1, 29, 30], [0.0, 0.9 / 29, 0.9, 0.9]),
        (3, 0.3, [0, 1, 2], [0.0, 0.9, 0.9]),
    ],
)
def test_weight_of_the_past(rounds, participation, before, expected):
    fed = SimpleNamespace(training=SimpleNamespace(rounds=rounds, participation=participation))
    near(simulations.method("fedphp").mu(fed, torch.tensor(before).double()), expected, 1e-12)
