"""Types of numbers: what they are where, and how far results may move with them."""

import dataclasses

import pytest
import torch
from studies import prepared, study_of
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fedgrid.engine.compute import Sources, compute
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.models.base import Network
from fedgrid.models.cnn import CNN
from fedgrid.models.mlp import MLP
from fedgrid.suite import simulations
from fedgrid.tree import leaves

ROUNDING = 2.0**-8
"Relative rounding error of bfloat16."

NETWORKS = {
    "mlp": (MLP(hidden=16, features=8), (8, 8, 1)),
    "mlp of a colour image": (MLP(), (12, 9, 3)),
    "cnn": (CNN(channels=3, features=8), (16, 16, 1)),
    "cnn of a colour image": (CNN(), (32, 28, 3)),
}
every_network = pytest.mark.parametrize(("model", "shape"), NETWORKS.values(), ids=list(NETWORKS))
both_methods = pytest.mark.parametrize("name", ["fedavg", "fedcosr"])


def images(shape, count=5):
    height, width, channels = shape
    return torch.randn(count, channels, height, width, generator=torch.Generator().manual_seed(1))


def trained(name, dtype, executor=None, **training):
    """The progress of a federation, whose network is made for `dtype` as a cell does it."""
    simulation = simulations.ragged(executor=executor or Loop(), dtype=dtype, **training)
    if dtype == "bfloat16-mixed":
        simulation = dataclasses.replace(simulation, model=simulation.model.in_bfloat16())
    return simulations.run(name, simulation).progress


def kinds(state):
    """Types of the numbers with a fraction in a state."""
    return {t.dtype for tree in (state.server, state.clients) for t in leaves(tree) if t.is_floating_point()}


def distance(first, second):
    """Largest difference of two states, relative to the largest number of each tensor."""
    pairs = zip(*(leaves({"s": s.server, "c": s.clients}) for s in (first, second)), strict=True)
    far = [
        ((a - b).nan_to_num().abs().max() / b.nan_to_num().abs().max().clamp(min=1e-3)).item()
        for a, b in pairs
        if a.is_floating_point()
    ]
    return max(far)


# The network


@every_network
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_network_in_bfloat16_returns_the_type_of_its_input(model, shape, dtype):
    network, x = model.network(shape, 10), images(shape).to(dtype)
    theta = {key: t.to(dtype) for key, t in network.initial(0).items()}
    mixed = network.in_bfloat16()
    for actual in (mixed(theta, x), mixed.features(theta, x), mixed.head(theta, network.features(theta, x))):
        assert actual.dtype == dtype
    assert network.mixed is False


@every_network
def test_layers_in_bfloat16_round_to_it(model, shape):
    network, x = model.network(shape, 10), images(shape)
    theta = network.initial(0)
    exact, rounded = network(theta, x), network.in_bfloat16()(theta, x)
    assert torch.equal(rounded, rounded.bfloat16().float())
    assert not torch.equal(exact, rounded)
    assert (exact - rounded).abs().max() <= 8 * ROUNDING * exact.abs().max()


def test_dropout_is_the_same_in_bfloat16():
    network = MLP(hidden=16, features=8, dropout=0.5).network((8, 8, 1), 10)
    theta, x = network.initial(0), images((8, 8, 1))
    exact, rounded = (n.learning(3)(theta, x) for n in (network, network.in_bfloat16()))
    assert (exact - rounded).abs().max() <= 8 * ROUNDING * exact.abs().max()
    assert not torch.equal(rounded, network.in_bfloat16()(theta, x))


@every_network
def test_flops_are_those_that_torch_counts(model, shape):
    network = model.network(shape, 10)
    with FlopCounterMode(display=False) as counter:
        network(network.initial(0), images(shape, 1))
    assert network.flops(shape) == counter.get_total_flops() > 0


def test_pooling_before_relu_is_relu_before_pooling_to_the_bit():
    network, shape = CNN(channels=4, features=8).network((20, 20, 3), 10), (20, 20, 3)
    layers = list(network.modules["extractor"])
    assert [type(layers[i]) for i in (1, 2, 4, 5)] == [nn.MaxPool2d, nn.ReLU] * 2
    for first in (1, 4):
        layers[first], layers[first + 1] = layers[first + 1], layers[first]
    modules = {"extractor": nn.Sequential(*layers), "head": network.modules["head"]}
    other = Network(modules, network.width, network.classes)
    (ours, our_slopes), (theirs, their_slopes) = (scores_and_slopes(n, images(shape, 16)) for n in (network, other))
    assert torch.equal(ours, theirs)
    assert set(our_slopes) == set(network.initial(0))
    assert all(our_slopes[key].any() and torch.equal(our_slopes[key], their_slopes[key]) for key in our_slopes)


def scores_and_slopes(network, x):
    theta = {key: t.requires_grad_() for key, t in network.initial(0).items()}
    scores = network(theta, x)
    scores.logsumexp(dim=1).sum().backward()
    return scores.detach(), {key: t.grad for key, t in theta.items()}


# Federations


@both_methods
def test_bfloat16_moves_the_result_a_little_and_no_state(name):
    exact, mixed = (trained(name, dtype, rounds=20, eval_every=20) for dtype in ("float32", "bfloat16-mixed"))
    assert kinds(mixed.state) == {torch.float32}
    assert distance(mixed.state, exact.state) > 1e-4
    ours, theirs = (progress.record.latest("accuracy_received") for progress in (mixed, exact))
    assert ours == pytest.approx(theirs, abs=0.1)
    assert theirs > 0.3  # there was something to lose


@both_methods
def test_both_executors_agree_in_bfloat16(name):
    """Over one round; over more of them rounding grows as it does within one executor."""
    loop, together, exact = (
        trained(name, dtype, executor, rounds=1)
        for dtype, executor in (("bfloat16-mixed", Loop()), ("bfloat16-mixed", Stacked()), ("float32", Loop()))
    )
    assert distance(together.state, loop.state) <= 2 * ROUNDING
    assert distance(loop.state, exact.state) <= 4 * ROUNDING


@pytest.mark.parametrize("executor", [Loop, Stacked])
@both_methods
def test_float64_is_float64_everywhere(name, executor):
    precise = trained(name, "float64", executor(), participation=0.5)
    assert kinds(precise.state) == {torch.float64}
    single = trained(name, "float32", executor(), participation=0.5)
    assert 1e-12 < distance(precise.state, single.state) < 1e-4


def test_a_cell_computes_in_the_type_of_its_study(tmp_path):
    actual = {}
    for dtype in ("float32", "bfloat16-mixed", "float64"):
        training = {"rounds": 2, "batch_size": 512, "participation": 0.5, "dtype": dtype}
        study = prepared(study_of(results=str(tmp_path), methods=["fedcosr"], seeds=[0], training=training))
        (cell,) = study.cells
        sources = Sources(cell.spec, cell.row.component.reference, cell.partition.file, cell.partition.data.files)
        actual[dtype] = compute(sources, study.compute).outcome.progress.state
    assert [kinds(state) for state in actual.values()] == [{torch.float32}, {torch.float32}, {torch.float64}]
    assert distance(actual["float64"], actual["float32"]) < 1e-4
    assert distance(actual["bfloat16-mixed"], actual["float32"]) > 1e-4
