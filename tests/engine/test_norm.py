"""Batch norm as a pure function of parameters, whose statistics are measured after local training."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.errors import UserError
from fedgrid.loading import load
from fedgrid.models.cnn import CNN
from fedgrid.models.common.norm import BatchNorm, GroupNorm, is_statistic
from fedgrid.models.mlp import MLP
from fedgrid.suite import simulations

EXECUTORS = pytest.mark.parametrize("executor", [Loop, Stacked])


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4, 5)])
def test_it_is_torch_batch_norm(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    theirs = (nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(3, momentum=1.0)
    ours = BatchNorm(3)
    ours.load_state_dict({name: t for name, t in copy.deepcopy(theirs.state_dict()).items() if "num" not in name})
    torch.testing.assert_close(ours.train()(x), theirs.train()(x))
    ours.load_state_dict({name: t for name, t in theirs.state_dict().items() if "num" not in name})
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


@pytest.mark.parametrize("shape", [(6, 8), (6, 8, 4, 5), (1, 8, 2, 2)])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_group_norm_is_torch_group_norm(shape, memory_format):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x = x.to(memory_format=memory_format) if len(shape) == 4 else x
    theirs, ours = nn.GroupNorm(4, 8), GroupNorm(4, 8)
    assert torch.equal(ours(x), theirs(x))
    assert ours.state_dict().keys() == theirs.state_dict().keys()


def test_group_norm_of_one_value_a_group_is_the_bias():
    layer = GroupNorm(8, 8)
    layer.load_state_dict({"weight": torch.ones(8), "bias": torch.arange(8.0)})
    x = torch.linspace(-0.1, 0.1, 8).unsqueeze(0)  # x·rstd − x·rstd, in which rstd is 316, rounds by 2e-5·|x|
    assert_close(layer(x), torch.arange(8.0).unsqueeze(0))


@pytest.mark.parametrize("name", ["mlp", "resnet8"])
def test_clients_with_group_norm_are_stacked(name):
    """Last batches of one image included; both executors agree but for rounding."""
    index = [simulations.draw(range(9)), simulations.draw([3, 3, 7])]
    network = load("models", name)(norm="group", features=16).network((8, 8, 1), 10)
    states = []
    for executor in (Loop, Stacked):
        where = simulations.simulation(index, executor=executor(), batch_size=4, dtype="float64", rounds=1)
        states.append(federate(simulations.method("fedavg"), replace(where, model=network)).progress.state)
    simulations.assert_close_states(*states)


def test_one_value_has_no_variance():
    layer = BatchNorm(2).train()
    layer.load_state_dict({name: torch.ones(2) for name in layer.state_dict()})
    assert_close(
        layer(torch.tensor([[3.0, 1.0]])), torch.tensor([[3.0, 1.0]])
    )  # 1·(x − 1)/1 + 1, by its own statistics


@EXECUTORS
def test_statistics_are_those_of_the_clients_images(executor):
    """With one batch a client, layer after layer; a client without images or with one keeps what it received."""
    index = [simulations.draw(range(9)), simulations.draw([3, 3, 7]), [], simulations.draw([5])]
    simulation = simulations.simulation(
        index, [simulations.draw([0])] * 4, executor=executor(), norm="batch", batch_size=99
    )
    fed = everyone(simulation, 0)
    start = fed.replicate(fed.initial())
    trained = fed.train(start, simulations.method("local").loss).theta
    for client, images in enumerate(simulation.data.train):
        theta = {name: t[client] for name, t in trained.items()}
        if len(images) < 2:
            for name in simulation.model.statistics:
                assert torch.equal(theta[name], start[name][client])
            continue
        batch = simulation.data.batch(images)
        first = torch.nn.functional.linear(batch.x.flatten(1), theta["extractor.1.weight"], theta["extractor.1.bias"])
        assert_close(theta["extractor.2.running_mean"], first.mean(dim=0))
        assert_close(theta["extractor.2.running_var"], first.var(dim=0, unbiased=False))
        # what training saw of a whole client is what evaluation sees
        assert_close(simulation.model.learning(0)(theta, batch.x), simulation.model(theta, batch.x))


def assert_close(ours, theirs):
    """To the rounding of float32."""
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_statistics_are_no_parameters():
    simulation = simulations.ragged(norm="batch", weight_decay=0.1)
    names = simulation.model.statistics
    assert len(names) == 4 and all(map(is_statistic, names)) and set(names) < set(simulation.model.initial(0))
    fed = everyone(simulation, 0)
    theta = fed.replicate(fed.initial())
    free = fed.train(theta, lambda t, batch, at: sum(v.square().sum() for v in t.values()), part="head").theta
    assert all(torch.equal(free[name], theta[name]) for name in names)


def test_a_client_that_takes_no_step_keeps_its_statistics():
    simulation = simulations.ragged(norm="batch")
    ours, theirs = (
        federate(simulations.method(name, **given), simulation).progress.record.rows for name, given in NO_STEP
    )
    assert [row for row in ours if "adapted" not in row[1]] == theirs
    adapted = [(done, ids, values) for done, metric, ids, values in ours if metric == "accuracy_adapted"]
    assert adapted == [(done, ids, values) for done, metric, ids, values in theirs if metric == "accuracy_received"]


NO_STEP = (("fedavg_ft", {"finetune_epochs": 0}), ("fedavg", {}))


def test_moments_are_not_rounded_to_bfloat16():
    simulation = simulations.ragged(clients=1, norm="batch", batch_size=99)
    theta, images = simulation.model.initial(0), simulation.data.batch(simulation.data.train[0]).x + 20
    exact, mixed = (
        network.learning(0).moments(theta, images) for network in (simulation.model, simulation.model.in_bfloat16())
    )
    name = "extractor.2.running_"
    variance = [m[f"{name}var"] - m[f"{name}mean"].square() for m in (exact, mixed)]
    assert mixed[f"{name}var"].dtype == torch.float32
    torch.testing.assert_close(*variance, rtol=0.3, atol=0.05)


def test_a_variance_below_0_counts_as_none():
    layer = BatchNorm(1).eval()
    layer.load_state_dict({name: torch.ones(1) for name in layer.state_dict()} | {"running_var": torch.tensor([-0.1])})
    assert layer(torch.tensor([[1.5]])).isfinite().all()


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_a_convolutional_network_learns_with_it(norm):
    network = CNN(channels=2, features=8, norm=norm).network((16, 16, 1), 10)
    theta, x = network.initial(0), torch.rand(5, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    assert network(theta, x).shape == (5, 10)
    assert len(network.statistics) == (4 if norm == "batch" else 0)
    assert network.flops((16, 16, 1)) == CNN(channels=2, features=8).network((16, 16, 1), 10).flops((16, 16, 1))


def test_a_projection_head_is_part_of_the_extractor():
    network = MLP(hidden=16, features=8, projection=4).network((8, 8, 1), 10)
    theta = network.initial(0)
    assert network.width == 4 and theta["head.weight"].shape == (10, 4)
    assert network.features(theta, torch.zeros(3, 1, 8, 8)).shape == (3, 4)
    plain = MLP(hidden=16, features=8).network((8, 8, 1), 10).initial(0)
    assert sum(name.startswith("extractor") for name in theta) == 4 + sum(n.startswith("extractor") for n in plain)


def test_layers_with_a_state_of_their_own_are_refused():
    class Stateful(MLP):
        def extractor(self, shape):
            return nn.Sequential(nn.Flatten(), nn.Linear(64, self.features), nn.BatchNorm1d(self.features))

    with pytest.raises(UserError, match="BatchNorm1d, a layer with state"):
        Stateful().network((8, 8, 1), 10)


def test_a_model_that_a_loss_compares_with_is_in_evaluation():
    network = MLP(norm="batch", dropout=0.5).network((8, 8, 1), 10)
    theta, x = network.initial(0), torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    learning = network.learning(7)
    assert not torch.equal(learning(theta, x), network(theta, x))
    assert torch.equal(learning.evaluating()(theta, x), network(theta, x))
    assert load("models", "mlp")().network((8, 8, 1), 10).evaluating().key is None
