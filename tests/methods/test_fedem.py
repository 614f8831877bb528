"""FedEM: both steps of EM by hand, mixed predictions, two groups that part, what travels."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from nearness import DOUBLE, all_near, near
from trajectories import after_each_round, next_state, numbers, traffic, two_groups

from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.state import State
from fedgrid.suite import simulations
from fedgrid.tree import Tree


class Table:
    """A network whose logits are parameters, one row for each image, times its images; not for training."""

    def __init__(self, training=True):
        self.training = training

    def evaluating(self):
        return Table(training=False)

    def __call__(self, theta, x):
        return theta["logits"] * (1 if self.training else x)


def with_losses(*losses):
    """Logits of two classes whose cross entropies for class 0 are these."""
    return Tree(logits=torch.tensor([[-loss, math.log(1 - math.exp(-loss))] for loss in losses], dtype=torch.float64))


def context(models, pi, learner=0):
    server = Tree(models=Tree((str(m), model) for m, model in enumerate(models)), learner=torch.tensor([learner]))
    return LossContext(Table(), server, Tree(pi=torch.tensor(pi, dtype=torch.float64)), None)


def images_of_class_0(number):
    return Batch(torch.ones(number, 1).double(), torch.zeros(number, dtype=torch.long))


def states(simulation, **settings):
    """The method, and the states before the first round and after each."""
    method = simulations.method("fedem", **settings)
    return method, after_each_round(method, simulation)


# By hand


def test_responsibilities_are_shares_of_weighted_likelihoods():
    pi, losses = [0.7, 0.1, 0.2], [[0.2, 1.5], [1.2, 0.1], [0.6, 0.6]]
    at = context([with_losses(*row_) for row_ in losses], pi)
    joint = [[pi[m] * math.exp(-losses[m][image]) for m in range(3)] for image in range(2)]
    expected = [[value / sum(values) for value in values] for values in joint]
    method = simulations.method("fedem")
    near(method.responsibilities(images_of_class_0(2), at), expected)
    near(method.summed_responsibilities(Tree(), images_of_class_0(2), at)["q"], np.sum(expected, axis=0))
    filled = replace(images_of_class_0(2), counted=torch.tensor([False, True]))
    near(method.summed_responsibilities(Tree(), filled, at)["q"], expected[1])


def test_a_learner_without_weight_is_out_of_the_mixture():
    method = simulations.method("fedem", learners=2)
    at = context([with_losses(5.0), with_losses(0.1)], [1.0, 0.0])
    near(method.responsibilities(images_of_class_0(1), at), [[1, 0]])


def test_probabilities_are_mixed_not_logits():
    """On logits (0, 8) and (2, 0) the mean of probabilities and that of logits prefer different classes."""
    method = simulations.method("fedem", learners=2)
    models = {"0": Tree(logits=torch.tensor([[0.0, 8.0]])), "1": Tree(logits=torch.tensor([[2.0, 0.0]]))}
    theta = Tree(models=Tree(models), pi=torch.tensor([0.4, 0.6]))
    scores = method.predict(theta, torch.ones(1, 1), LossContext(Table(), Tree(), Tree(), None))
    first, second = 1 / (1 + math.exp(8)), 1 / (1 + math.exp(-2))
    share = 0.4 * first + 0.6 * second
    near(scores.exp(), [[share, 1 - share]], 1e-6)
    assert share > 0.5 and 0.4 * 8 > 0.6 * 2
    alone = method.predict(
        theta | {"pi": torch.tensor([1.0, 0.0])}, torch.ones(1, 1), LossContext(Table(), *[Tree()] * 2, None)
    )
    near(alone.softmax(dim=1), [[first, 1 - first]], 1e-6)


# Rounds


def test_every_learner_has_its_own_statistics_of_batch_norm():
    simulation = simulations.ragged(3, rounds=1, norm="batch", batch_size=8, **DOUBLE)
    _, (start, end) = states(simulation)
    assert simulation.model.statistics
    for name in simulation.model.statistics:
        values = [end.server.models[m][name] for m in "012"]
        assert all(not torch.equal(value, start.server.models["0"][name]) for value in values)
        assert not torch.equal(values[0], values[1]) and not torch.equal(values[1], values[2])


def test_equal_learners_are_fedavg_at_a_part_of_its_rate():
    """They see the same batches and stay equal; q is 1/M."""
    common = {"batch_size": 4, "local_epochs": 2, "rounds": 1, **DOUBLE}
    fedavg, slower = simulations.ragged(3, lr=0.1, **common), simulations.ragged(3, lr=0.3, **common)
    expected = simulations.final("fedavg", fedavg).server.theta
    method, (start, _) = states(slower)
    start = start.update(server={"models": Tree((m, start.server.models["0"]) for m in "012")})
    end = next_state(method, slower, 0, start)
    for model in end.server.models.values():
        all_near(model, expected, 1e-12)
    near(end.clients.pi, [[1 / 3] * 3] * 3)


def test_two_groups_find_two_models():
    """For three clients y is 9 − y; from models of either group all weights part."""
    models = {
        str(m): simulations.final("fedavg", two_groups(group)).server.theta
        for m, group in enumerate((range(3), range(3, 6)))
    }
    method, simulation = simulations.method("fedem", learners=2), two_groups(rounds=7)
    state = State(server={"models": models}, clients={"pi": torch.full((6, 2), 0.5).double()})
    for number in range(4, 7):
        state = next_state(method, simulation, number, state)
    assert state.clients.pi[:3, 0].min() > 0.9 and state.clients.pi[3:, 1].min() > 0.9


# Idle clients, those with few images, and what travels


def test_a_client_whose_upload_is_lost_has_new_weights():
    same, some_lost = (simulations.ragged(4, rounds=1, lr=0.2, dropout=share, **DOUBLE) for share in (0.0, 0.5))
    outcome, expected = (federate(simulations.method("fedem"), where).progress for where in (some_lost, same))
    lost = next(np.asarray(values) for _, what, _, values in outcome.record.rows if what == "upload_lost")
    assert lost.any() and not lost.all()
    near(outcome.state.clients.pi, expected.state.clients.pi)
    assert not torch.equal(
        outcome.state.server.models["1"]["head.weight"], expected.state.server.models["1"]["head.weight"]
    )


def test_clients_without_images_keep_their_weights():
    train = [simulations.draw(range(6)), [], simulations.draw([3], start=50)]
    simulation = simulations.simulation(train, [simulations.draw(range(4), start=200)] * 3, rounds=2, lr=0.2, **DOUBLE)
    _, ours = states(simulation)
    near(ours[-1].clients.pi[1], [1 / 3] * 3)


@pytest.mark.parametrize("learners", [1, 2, 3])
def test_all_models_travel_both_ways(learners):
    simulation = simulations.ragged(3, rounds=1)
    sent = [[4 * learners * numbers(simulation.initial)] * 3]
    assert traffic("fedem", simulation, learners=learners) == {"up": sent, "down": sent}
