"""IFCA: choices and averages by hand, two groups that part, and what travels."""

from types import SimpleNamespace

import torch
from nearness import all_near
from trajectories import after_each_round, next_state, numbers, traffic, two_groups

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.state.state import State
from fedgrid.methods.ifca import stacked
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree, weighted_sum

IMAGES = torch.tensor([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]]).double()
MEAN_LOSSES = torch.tensor([[0.5, 0.4], [0.1, 0.9], [0.3, 0.2]]).double()


def three_clients(losses=MEAN_LOSSES):
    """As much of a federation as a choice and an average look at; their losses are sums over images."""
    sums = losses * IMAGES.sum(dim=1, keepdim=True)
    measured = Tree(losses=sums)
    return SimpleNamespace(counts=IMAGES, measure=lambda *a, **given: measured, average=weighted_sum)


# By hand


def test_choices_and_averages_of_three_clients():
    method, fed = simulations.method("ifca", models=2), three_clients()
    theta, models = Tree(x=torch.eye(3).double()), Tree(x=torch.full((2, 3), 7.0).double())
    choice = method.choice(fed, models)
    assert choice.tolist() == [1, 0, 1]
    all_near(method.averaged(fed, choice, theta, models), {"x": torch.tensor([[0, 1, 0], [0.25, 0, 0.75]]).double()})


def test_a_model_that_nobody_chose_stays():
    method = simulations.method("ifca", models=3)
    fed = three_clients(torch.cat([MEAN_LOSSES[:, :1], MEAN_LOSSES[:, :1] + 1, MEAN_LOSSES[:, 1:]], dim=1))
    theta, models = Tree(x=torch.eye(3).double()), Tree(x=torch.full((3, 3), 1 / 3).double())
    choice = method.choice(fed, models)
    assert choice.tolist() == [2, 0, 2]
    averaged = method.averaged(fed, choice, theta, models).x
    assert torch.equal(averaged[1], models.x[1])
    torch.testing.assert_close(averaged[2], torch.tensor([0.25, 0, 0.75]).double())


def test_the_first_of_equal_models_is_chosen():
    method = simulations.method("ifca", models=2)
    assert method.choice(three_clients(MEAN_LOSSES[:, :1].expand(3, 2)), Tree()).tolist() == [0, 0, 0]
    simulation = simulations.ragged(3)
    theta = everyone(simulation, 0).initial()
    assert method.choice(everyone(simulation, 0), stacked([theta, theta])).tolist() == [0, 0, 0]


# Whole rounds


def test_two_groups_find_two_clusters_from_separate_starts():
    """Each then has FedAvg to itself."""
    groups = [two_groups({0, 1, 2}), two_groups({3, 4, 5})]
    alone = [after_each_round(simulations.method("fedavg"), group)[1:] for group in groups]
    start, *later = (stacked([state.server.theta for state in apart]) for apart in zip(*alone, strict=True))
    together, method = two_groups(range(6)), simulations.method("ifca", models=2)
    state = State(server={"models": start, "cluster": torch.zeros(6, dtype=torch.long)})
    for number, expected in enumerate(later, start=1):
        state = next_state(method, together, number, state)
        assert state.server.cluster.tolist() == [0, 0, 0, 1, 1, 1]
        all_near(state.server.models, expected, 1e-12)
    clusters = method.clusters(State(state.server))
    assert clusters["client"].tolist() == [*range(6)] and clusters["cluster"].tolist() == [0, 0, 0, 1, 1, 1]


def test_an_empty_cluster_keeps_its_model():
    """Clients whose images are the same choose the same model; the others stay bit for bit."""
    images = simulations.draw(range(10))
    states = after_each_round(simulations.method("ifca", models=3), simulations.simulation([images] * 3))
    start, end = states[0].server.models, states[-1].server.models
    (number,) = set(states[-1].server.cluster.tolist())
    for k in range(3):
        same = all(torch.equal(end[name][k], t[k]) for name, t in start.items())
        assert same == (k != number)


def test_all_models_are_sent_and_one_comes_back_with_its_number():
    simulation = simulations.ragged(3, rounds=1)
    size = numbers(simulation.initial)
    assert traffic("ifca", simulation, models=2) == {"up": [[4 * (size + 1)] * 3], "down": [[4 * 2 * size] * 3]}


def test_without_local_epochs_models_stay():
    simulation = simulations.ragged(3, local_epochs=0, dtype="float64")
    state, start = final("ifca", simulation), simulations.method("ifca").setup(everyone(simulation, 0))
    all_near(state.server.models, start.server.models, 1e-12)
