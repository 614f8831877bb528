"""FedBABU and FedBN: which part of a model travels, which one stays, and which one is fine-tuned."""

import pytest
import torch
from nearness import DOUBLE, all_near
from trajectories import numbers, traffic

from fedgrid.engine.federation.participation import everyone
from fedgrid.loading import load
from fedgrid.models.common.norm import named_layers
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final, one_round, used
from fedgrid.tree import Tree


def largest_move(ours, theirs):
    return max((ours[name] - theirs[name]).abs().max() for name in ours)


# FedBABU


@pytest.mark.parametrize("optimizer", [{"momentum": 0.9, "lr": 0.01}, {"optimizer": "adam", "lr": 0.003}], ids=str)
def test_fedbabus_head_never_moves(optimizer):
    simulation = simulations.ragged(participation=0.5, weight_decay=0.1, **optimizer)
    start, method = simulation.model.initial(0), simulations.method("fedbabu")
    state = final("fedbabu", simulation)
    all_near(state.server.theta.part("head"), start.part("head"), 0)
    assert largest_move(state.server.theta.part("extractor"), start) > 1e-3
    trained = one_round(method, simulation, 3, state)[1].trained
    all_near(trained.part("head"), start.part("head").map(lambda t: t.expand(2, *t.shape)), 0)
    assert largest_move(trained.part("extractor"), state.server.theta) > 1e-3


def test_fedbabu_stays_where_nobody_trains():
    simulation = simulations.ragged(local_epochs=0, **DOUBLE)
    start = everyone(simulation, 0).replicate(simulation.initial)
    all_near(used("fedbabu", simulation, finetune_epochs=None), start)


def test_fedbabus_extractor_travels_alone():
    simulation = simulations.ragged()
    extractor = [[4 * numbers(simulation.initial.part("extractor"))] * 5] * 3
    assert traffic("fedbabu", simulation) == {"up": extractor, "down": extractor}


# FedBN


def test_fedbn_shares_what_has_no_statistics_beside_it():
    names = ("a.weight", "b.weight", "b.bias", "b.running_mean", "b.running_var")
    theta = Tree((name, torch.ones(2)) for name in names)
    assert list(simulations.method("fedbn").shared(theta)) == ["a.weight"]
    assert list(simulations.method("fedbn", local_part="nothing").shared(theta)) == list(names)
    assert not simulations.method("fedbn", local_part="all").shared(theta)


@pytest.mark.parametrize("model", ["cnn", "convnet", "mlp", "mobilenetv2", "resnet18", "resnet8"])
def test_fedbn_knows_the_layers_of_every_model(model):
    """Those of shortcuts too, whatever their names; group norm is shared."""

    def names(kind):
        modules = load("models", model)(norm=kind).network((32, 32, 3), 10).modules
        theta = Tree((f"{part}.{key}", t) for part, module in modules.items() for key, t in module.state_dict().items())
        layers = {layer for part, module in modules.items() for layer in named_layers(module, part)}
        return set(theta) - set(simulations.method("fedbn").shared(theta)), layers

    local, layers = names("batch")
    kinds = ("weight", "bias", "running_mean", "running_var")
    assert layers and local == {f"{layer}.{kind}" for layer in layers for kind in kinds}
    assert names("group") == (set(), set())


def test_fedbns_layers_do_not_travel():
    simulation = simulations.ragged(rounds=2, norm="batch", batch_size=8)
    widths_of_layers = (16, 8)
    rest = [[4 * (numbers(simulation.initial) - 4 * sum(widths_of_layers))] * 5] * 2
    assert traffic("fedbn", simulation) == {"up": rest, "down": rest}
