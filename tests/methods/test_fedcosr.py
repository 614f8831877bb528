"""FedCoSR: printed examples of its contrast, trust and class means, and what travels in it and in simple methods."""

import math

import pytest
import torch
from nearness import near_printed as near
from trajectories import numbers, traffic

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.rounds import federate
from fedgrid.methods.common.prototypes import aggregate, class_means, info_nce
from fedgrid.suite import simulations
from fedgrid.tree import Tree

ALL = torch.tensor([True, True])


# A worked example: G = [(1,0),(0.6,0.8)], temperature 0.1


def single(z, label, prototypes, known=ALL):
    return info_nce(torch.tensor([z]), torch.tensor([label]), torch.tensor(prototypes), known, 0.1)


def test_contrast_of_single_samples():
    centres = [[1.0, 0.0], [0.6, 0.8]]
    samples = (([2.0, 0.0], 0), ([1.0, 1.0], 0), ([0.0, 3.0], 1))
    for (z, label), expected in zip(samples, (0.018150, 2.885852, 0.000335), strict=True):
        total, counted = single(z, label, centres)
        near(total, expected, 2e-6)
        assert counted == 1
    near(single([1.0, 0.0], 0, [[1.0, 0.0], [0.0, 1.0]])[0], math.log1p(math.exp(-10)), 1e-6)


def test_contrast_of_a_batch_and_the_trust_it_gives():
    z = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    total, counted = info_nce(z, torch.tensor([0, 0, 1]), torch.tensor([[1.0, 0.0], [0.6, 0.8]]), ALL, 0.1)
    near(total / counted, 0.968112, 2e-6)
    near(torch.exp(-0.8 * total / counted), 0.460939, 2e-6)


def test_contrast_masks_unknown_classes():
    only_first = torch.tensor([True, False])
    total, counted = single([1.0, 1.0], 0, [[1.0, 0.0], [0.0, 0.0]], only_first)
    assert (total.item(), counted.item()) == (0.0, 1)  # no negative
    total, counted = single([1.0, 1.0], 1, [[1.0, 0.0], [0.0, 0.0]], only_first)
    assert (total.item(), counted.item()) == (0.0, 0)  # no positive
    z = torch.tensor([[1.0, 1.0]], requires_grad=True)
    info_nce(z, torch.tensor([1]), torch.zeros(2, 2), ~ALL, 0.1)[0].backward()
    assert z.grad.eq(0).all()


def test_equal_prototypes_contrast_with_log_of_the_classes_and_no_gradient():
    z = torch.tensor([[1.0, 2.0]], requires_grad=True)
    total, _ = info_nce(z, torch.tensor([1]), torch.tensor([[3.0, 1.0]] * 4), torch.ones(4, dtype=torch.bool), 0.1)
    total.backward()
    near(total, math.log(4), 1e-6)
    near(z.grad, torch.zeros(1, 2), 1e-6)


@pytest.mark.parametrize(
    ("contrasted", "expected"),
    [(0.1, 0.923116), (0.5, 0.670320), (math.log(2), 0.574349), (1, 0.449329), (math.log(10), 0.158489), (5, 0.018316)],
)
def test_trust(contrasted, expected):
    simulation = simulations.ragged(clients=1)
    state = federate(simulations.method("fedcosr", gamma=0.8), simulation).progress.state
    measured = state.update(clients={"regularity": torch.tensor([float(contrasted)])})
    near(simulations.method("fedcosr", gamma=0.8).trust(everyone(simulation, 3, measured), measured), [expected])


def test_class_means_and_their_aggregate():
    counts = torch.tensor([[30.0, 0.0], [10.0, 0.0]], dtype=torch.float64)
    sums = torch.tensor([[[30.0, 0.0], [0.0, 0.0]], [[30.0, 40.0], [0.0, 0.0]]])
    means = class_means(sums, counts)
    near(means[:, 0], [[1.0, 0.0], [3.0, 4.0]])
    previous = torch.tensor([[9.0, 9.0], [7.0, 8.0]])
    prototypes, known = aggregate(means, counts, previous, torch.tensor([False, True]))
    near(prototypes, [[1.5, 1.0], [7.0, 8.0]])  # the second class keeps its value
    assert known.tolist() == [True, True]
    assert aggregate(means, counts, previous, ~ALL)[1].tolist() == [True, False]


# Traffic


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("local", "nothing"),
        ("fedper", "extractor"),
        *((name, "") for name in ("fedavg", "fedavg_ft", "fedprox", "ditto")),
    ],
)
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_bytes_of_models(name, part, participation):
    """The part of θ that travels both ways, by its names' start."""
    simulation = simulations.ragged(participation=participation)
    theta = Tree(simulation.initial)
    sent = [[4 * numbers(theta.part(part) if part else theta)] * (5 if participation == 1 else 2)] * 3
    assert traffic(name, simulation) == {"up": sent, "down": sent}


@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_bytes_of_fedcosr(separate, participation):
    """Means of 8 numbers: up those of a client's classes, down those of the classes that are known."""
    simulation = simulations.ragged(participation=participation, rounds=4)
    model = numbers(Tree(simulation.initial).part("extractor") if separate else simulation.initial)
    classes = [set(simulation.data.labels[index].tolist()) for index in simulation.data.train]
    sent, known = traffic("fedcosr", simulation, separate=separate), set()
    for number, (up, down) in enumerate(zip(sent["up"], sent["down"], strict=True)):
        ids = participants(simulation, number).tolist()
        assert up == [4 * (model + len(classes[i]) * 8) for i in ids]
        assert down == [4 * (model + len(known) * 8)] * len(ids)
        known |= set().union(*(classes[i] for i in ids))
