"""IFCA: choices and averages by hand, whose images decide, two groups that part, and what travels."""

from dataclasses import replace
from types import SimpleNamespace

import torch
from trajectories import after_each_round

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.state import State
from fedgrid.methods.ifca import single, stacked
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


def near(ours, theirs, tolerance=0.0):
    assert set(ours) == set(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=tolerance)


def chosen(simulation, models, lists):
    """The model with the lowest mean loss on each client's images of `lists`."""
    choices = []
    for index in lists:
        batch = simulation.data.batch(index)
        logits = [simulation.model(single(models, k), batch.x) for k in range(len(models["head.bias"]))]
        losses = [torch.nn.functional.cross_entropy(z, batch.y).item() for z in logits]
        choices.append(losses.index(min(losses)))
    return choices


# By hand


def test_choices_and_averages_of_three_clients():
    method, fed = simulations.method("ifca", models=2), three_clients()
    theta, models = Tree(x=torch.eye(3).double()), Tree(x=torch.full((2, 3), 7.0).double())
    choice = method.choice(fed, models)
    assert choice.tolist() == [1, 0, 1]
    near(method.averaged(fed, choice, theta, models), {"x": torch.tensor([[0, 1, 0], [0.25, 0, 0.75]]).double()})


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


def test_starts_are_drawn_apart_and_the_first_one_is_the_common_one():
    simulation = simulations.ragged(2, dtype="float64")
    models = simulations.method("ifca", models=3).setup(everyone(simulation, 0)).server.models
    near(single(models, 0), everyone(simulation, 0).initial())
    weights = models["head.weight"]
    assert len(weights) == 3 and weights.dtype == torch.float64
    assert not any(torch.equal(weights[i], weights[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_training_images_choose():
    """Test images, whose labels are others, would choose other models for some clients."""
    labels = [[0, 1], [2, 3], [4, 5], [6, 7]]
    train = [simulations.draw(pair * 5, start=90 * i) for i, pair in enumerate(labels)]
    test = [simulations.draw(pair[::-1] * 3, start=1000 + 60 * i) for i, pair in enumerate([*labels[1:], labels[0]])]
    simulation = simulations.simulation(train, test, lr=0.2, local_epochs=2, dtype="float64")
    method = simulations.method("ifca", models=4)
    states = after_each_round(method, simulation)
    choices = [chosen(simulation, state.server.models, simulation.data.train) for state in states]
    for before, state in zip(choices, states[1:], strict=False):
        assert state.server.cluster.tolist() == before
    state = states[-1]
    with torch.no_grad():
        received = method.received(everyone(simulation, 3, state), state)
    near(received, single(state.server.models, torch.tensor(choices[-1])))
    assert choices[-1] != chosen(simulation, state.server.models, simulation.data.test)
    assert len(set(choices[-1])) > 1


def two_groups(clients):
    """Three clients with digits and three for whom y is 9 − y; those of `clients` alone have images."""
    first = 800
    starts = [60 * i + (first if i >= 3 else 0) for i in range(6)]
    train = [
        simulations.draw([*range(10)] * (1 + i % 3), start=start) if i in clients else []
        for i, start in enumerate(starts)
    ]
    simulation = simulations.simulation(train, lr=0.2, local_epochs=3, rounds=4, dtype="float64")
    labels = simulation.data.labels.clone()
    labels[first:] = 9 - labels[first:]
    return replace(simulation, data=replace(simulation.data, labels=labels))


def test_two_groups_find_two_clusters_from_separate_starts():
    """Each then has FedAvg to itself."""
    groups = [two_groups({0, 1, 2}), two_groups({3, 4, 5})]
    apart, fedavg = [], simulations.method("fedavg")
    with torch.no_grad():
        for group in groups:
            state = fedavg.setup(everyone(group, 0))
            apart.append(simulations.one_round(fedavg, group, 0, state)[1])
        together, method = two_groups(set(range(6))), simulations.method("ifca", models=2)
        starts = stacked([state.server.theta for state in apart])
        state = State(server={"models": starts, "cluster": torch.zeros(6, dtype=torch.long)})
        for number in (1, 2, 3):
            state = simulations.one_round(method, together, number, state)[1]
            apart = [
                simulations.one_round(fedavg, group, number, before)[1]
                for group, before in zip(groups, apart, strict=True)
            ]
            assert state.server.cluster.tolist() == [0, 0, 0, 1, 1, 1]
            near(state.server.models, stacked([alone.server.theta for alone in apart]), 1e-12)
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


def test_a_client_that_sits_out_keeps_its_last_cluster():
    simulation = simulations.ragged(5, participation=0.4, rounds=4, lr=0.2)
    states = after_each_round(simulations.method("ifca", models=4), simulation)
    assert states[0].server.cluster.tolist() == [0] * 5
    for number, state in enumerate(states[1:]):
        expected = states[number].server.cluster.clone()
        active = participants(simulation, number)
        expected[active] = torch.tensor(chosen(simulation, states[number].server.models, simulation.data.train))[active]
        assert torch.equal(state.server.cluster, expected)
    assert states[-1].server.cluster.any()


def test_clients_choose_anew_when_they_are_scored():
    """Whatever model they had chosen last."""
    simulation = simulations.ragged(3, rounds=2, lr=0.2)
    method = simulations.method("ifca", models=4)
    state = after_each_round(method, simulation)[-1]
    choice = torch.tensor(chosen(simulation, state.server.models, simulation.data.train))
    state = state.update(server={"cluster": (choice + 1) % 4})
    with torch.no_grad():
        near(method.received(everyone(simulation, 2, state), state), single(state.server.models, choice))


def test_all_models_are_sent_and_one_comes_back_with_its_number():
    simulation = simulations.ragged(3, rounds=1)
    size = sum(t.numel() for t in simulation.model.initial(0).values())
    rows = federate(simulations.method("ifca", models=2), simulation).progress.record.rows
    sent = {what: list(values) for _, what, _, values in rows if what.startswith("bytes")}
    assert sent == {"bytes_down": [4 * 2 * size] * 3, "bytes_up": [4 * (size + 1)] * 3}


def test_without_local_epochs_clients_only_choose():
    simulation = simulations.ragged(3, local_epochs=0, dtype="float64")
    state, start = final("ifca", simulation), simulations.method("ifca").setup(everyone(simulation, 0))
    near(state.server.models, start.server.models, 1e-12)
    assert state.server.cluster.tolist() == chosen(simulation, start.server.models, simulation.data.train)
