"""FedFomo: gains, mixtures and the choice of models, by hand; what is tried, and on which images."""

from dataclasses import replace

import pytest
import torch
from nearness import DOUBLE, all_near, near
from torch.nn.functional import cross_entropy
from trajectories import after_each_round, next_state, numbers, traffic

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.methods.common.groups import shares_of_groups
from fedgrid.methods.fedfomo import FedFomo
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree, leaves, row


class Losses(FedFomo):
    """A client's loss is an entry of the model."""

    def losses(self, fed, theta):
        return theta["head.bias"][:, 1]


def after(simulation, rounds, **settings):
    """The method, and its state after so many rounds."""
    method = simulations.method("fedfomo", **settings)
    return method, after_each_round(method, simulation, rounds)[-1]


def held_out(simulation, lists):
    index = [torch.tensor(chosen, dtype=torch.long) for chosen in lists]
    return replace(simulation, data=replace(simulation.data, validation=index))


# Gains and mixtures


def at_distances(simulation, distances, losses):
    """Models of a client so far from θ⁰ with `losses`, in the Losses' sense; one row each."""
    start = everyone(simulation, 0).initial()
    start["head.bias"] = torch.tensor([0.0, 1.0] + [0.0] * 8).double()
    models = [start["head.bias"].clone() for _ in distances]
    for bias, distance, loss in zip(models, distances, losses, strict=True):
        bias[1] = loss
        bias[0] = (distance**2 - (loss - 1) ** 2) ** 0.5
    count = len(models)
    stack = start.map(lambda t: t.expand(count, *t.shape))
    return stack, stack | {"head.bias": torch.stack(models)}


def test_gains_and_weights_of_three_models():
    """Losses 0.8, 0.5 and 1.3 at the distances 2, 1 and 4 of a model with loss 1."""
    simulation = simulations.ragged(3, **DOUBLE)
    start, theta = at_distances(simulation, (2, 1, 4), (0.8, 0.5, 1.3))
    method, fed = Losses(), everyone(simulation, 0)
    state = method.setup(fed).update(clients={"start": start, "theta": theta})
    before = method.losses(fed, start)
    r = method.gain(fed, state, theta, before)
    near(r, [0.1, 0.5, -0.075])
    near(method.gain(fed, state, start, before), [0, 0, 0])  # a model that is θ⁻ itself
    near(method.mixing(r.unsqueeze(0)), [[1 / 6, 5 / 6, 0]])


def test_where_no_model_helps_a_client_goes_on_from_its_own():
    r = torch.tensor([[-1.0, 0.0, -2.0], [0.0, 0.0, 0.0], [-1.0, 3.0, 1.0], [2.0, -3.0, -1.0]]).double()
    near(simulations.method("fedfomo").mixing(r), [[1, 0, 0], [1, 0, 0], [0, 0.75, 0.25], [1, 0, 0]])


def test_statistics_of_batch_norm_are_no_part_of_distances():
    simulation = simulations.ragged(3, norm="batch", **DOUBLE)
    start, theta = at_distances(simulation, (2, 1, 4), (0.8, 0.5, 1.3))
    method, fed = Losses(), everyone(simulation, 0)
    state = method.setup(fed).update(clients={"start": start, "theta": theta})
    theta = theta | {name: theta[name] + 100 for name in simulation.model.statistics}
    near(method.gain(fed, state, theta, method.losses(fed, start)), [0.1, 0.5, -0.075])


def test_a_round_starts_from_the_mixture():
    """θ⁻ + Σ w(θ − θ⁻) over the models of the round before, with the weights that are kept; batch norm's as well."""
    simulation = simulations.ragged(norm="batch", batch_size=8, **DOUBLE)
    method, before = after(simulation, 2, explore=0.0)
    state = next_state(method, simulation, 2, before)
    w = state.server.weights
    near(w.sum(dim=1), torch.ones(5))
    assert (w >= 0).all() and (w > 0).sum() > 5
    for i in range(5):
        origin = row(before.clients.start, i)
        steps = [float(w[i, j]) * (row(before.server.models, j) - origin) for j in range(5)]
        all_near(row(state.clients.start, i), sum(steps[1:], start=origin + steps[0]))
    with torch.no_grad():
        trained = everyone(simulation, 2, state).train(state.clients.start, method.loss).theta
    all_near(state.trained, trained, 0)
    all_near(state.server.models, trained, 0)


def test_equal_models_have_equal_gains():
    simulation = simulations.ragged(**DOUBLE)
    method, state = after(simulation, 2)
    models = state.server.models.map(lambda t: t[[0, 1, 1, 3, 4]])
    state = state.update(server={"models": models})
    later = next_state(method, simulation, 2, state)
    gained = later.server.preference - state.server.preference
    near(gained[[0, 3, 4], 1], gained[[0, 3, 4], 2])
    assert gained[[0, 3, 4], 1].abs().min() > 1e-6


def test_a_clients_own_model_is_the_one_that_it_kept():
    """Not the server's copy, which is older where an upload was lost."""
    simulation = simulations.ragged(3, **DOUBLE)
    method, state = after(simulation, 1, downloads=0)
    old = state.update(server={"models": state.server.models.map(torch.zeros_like)})
    later = next_state(method, simulation, 1, old)
    all_near(later.clients.start, state.clients.theta, 0)


# Images that decide


def mean_loss(simulation, theta, index):
    batch = simulation.data.batch(torch.as_tensor(index))
    return float(cross_entropy(simulation.model(theta, batch.x), batch.y))


@pytest.mark.parametrize("lists", [None, [[900, 901], [], [902]], [[900], [901, 902, 903], [904, 905]]])
def test_losses_are_on_images_held_out_or_else_on_training_images(lists):
    simulation = simulations.ragged(3, **DOUBLE)
    simulation = held_out(simulation, lists) if lists else simulation
    method, state = after(simulation, 2)
    fed = everyone(simulation, 2, state)
    with torch.no_grad():
        ours = method.losses(fed, state.clients.theta)
        images = [some or index for some, index in zip(lists or [[]] * 3, simulation.data.train, strict=True)]
        near(ours, [mean_loss(simulation, row(state.clients.theta, i), index) for i, index in enumerate(images)])
    assert all(t.isfinite().all() for t in leaves(state.server) if t.is_floating_point())


def test_clients_with_the_same_labels_mix_their_models():
    """Those with other labels make each other's losses worse."""
    clients = [simulations.draw(labels, 100 * i) for i, labels in enumerate([[0, 1] * 6] * 2 + [[8, 9] * 6] * 2)]
    simulation = simulations.simulation(clients, rounds=4, lr=0.1, **DOUBLE)
    weights = simulations.method("fedfomo").cooperation(final("fedfomo", simulation))["weights"]
    assert not weights[:2, 2:].any() and not weights[2:, :2].any()
    assert weights[0, 1] > 0.05 and weights[3, 2] > 0.05


def test_the_mixture_that_is_scored_is_the_one_from_which_the_next_round_starts():
    simulation = simulations.ragged(**DOUBLE)
    for groups in (0, 2):
        method, state = after(simulation, 2, groups=groups)
        with torch.no_grad():
            scored = method.used(everyone(simulation, 2, state), state)
        all_near(scored, next_state(method, simulation, 2, state).clients.start)


def test_a_part_of_the_clients_has_the_mixtures_that_it_has_among_all():
    simulation = simulations.ragged(**DOUBLE)
    method, state = after(simulation, 2)
    with torch.no_grad():
        fed = everyone(simulation, 2, state)
        some = fed.subset(torch.tensor([1, 3]))
        all_near(method.adapted(some, some.state), method.adapted(fed, state).rows(torch.tensor([1, 3])))


# Groups

TWO_BLOCKS = torch.block_diag(torch.full((3, 3), 4.0), torch.full((2, 2), 4.0)).double()


def test_groups_are_those_that_prefer_each_other_and_the_last_row_is_their_mean():
    shares = shares_of_groups(TWO_BLOCKS, torch.ones(5, dtype=torch.bool), 2)
    near(shares[-1], [1 / 6] * 3 + [1 / 4] * 2)
    near(sorted(shares[:-1].tolist()), [[0, 0, 0, 0.5, 0.5], [1 / 3] * 3 + [0, 0]])


def test_only_clients_that_have_uploaded_are_in_groups():
    known = torch.tensor([True, False, False, True, False])
    shares = shares_of_groups(TWO_BLOCKS, known, 4)
    near(shares, [[1, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0.5, 0, 0, 0.5, 0]])
    assert shares_of_groups(TWO_BLOCKS, ~known & known, 4).shape == (0, 5)
    assert shares_of_groups(TWO_BLOCKS, known, 0).shape == (0, 5)


def test_means_of_groups_are_offered_to_everyone():
    assert bytes_down(simulations.ragged(), downloads=0, groups=2) == [[0] * 5, [3] * 5, [3] * 5]
    clients = [simulations.draw(labels, 100 * i) for i, labels in enumerate([[0, 1] * 6] * 2 + [[8, 9] * 6] * 2)]
    simulation = simulations.simulation(clients, rounds=4, lr=0.1, **DOUBLE)
    method, before = after(simulation, 3, downloads=3, groups=2)
    state = next_state(method, simulation, 3, before)
    w = state.server.weights
    near(w.sum(dim=1), torch.ones(4))
    assert (w[0, 1], w[2, 3]) > (0.05, 0.05)
    all_near(state.clients.start, w @ before.server.models)  # the models uploaded last are also the clients' own


# What is tried


def bytes_down(simulation, **settings):
    """In models, round by round."""
    sent = traffic("fedfomo", simulation, **settings)["down"]
    return [[value / (4 * numbers(simulation.initial)) for value in values] for values in sent]


def test_all_others_are_tried_where_enough_may_be():
    assert bytes_down(simulations.ragged(), downloads=9) == [[0] * 5, [4] * 5, [4] * 5]
    assert bytes_down(simulations.ragged(), downloads=2) == [[0] * 5, [2] * 5, [2] * 5]
    _, state = after(simulations.ragged(**DOUBLE), 2, downloads=4)
    others = ~torch.eye(5, dtype=torch.bool)
    assert (state.server.preference[others] != 0).all() and not state.server.preference.diagonal().any()


def test_only_models_that_were_uploaded_are_tried():
    simulation = simulations.ragged(participation=0.4, rounds=2)
    first, second = (set(participants(simulation, number).tolist()) for number in (0, 1))
    assert bytes_down(simulation) == [[0, 0], [len(first - {i}) for i in sorted(second)]]
    assert first != second
    _, state = after(simulation, 2)
    assert set(state.server.uploaded.nonzero().flatten().tolist()) == first | second
    tried = {(i, j) for i, j in state.server.preference.nonzero().tolist()}
    assert tried == {(i, j) for i in second & first for j in first - {i}} | {
        (i, j) for i in second - first for j in first
    }


def test_a_client_with_nobody_to_download_from_tries_its_own_model_alone():
    """Beside others who have someone: only client 0 has uploaded a model."""
    simulation = simulations.ragged(3, **DOUBLE)
    method, state = after(simulation, 2)
    before = state.update(server={"uploaded": torch.tensor([True, False, False])})
    state = next_state(method, simulation, 2, before)
    gained = state.server.preference - before.server.preference
    assert (gained != 0).tolist() == [[False] * 3, [True, False, False], [True, False, False]]
    all_near(row(state.clients.start, 0), row(before.clients.theta, 0), 0)


def preferring(simulation, number, **settings):
    """What client 0 of six downloads in a round, over as many seeds as make a tally; it prefers 5, then 4, 3, …"""
    method = simulations.method("fedfomo", downloads=2, **settings)
    tally = []
    for seed in range(60):
        fed = everyone(replace(simulation, seed=seed), number)
        state = method.setup(fed)
        server = {"preference": torch.arange(6.0).double().expand(6, 6), "uploaded": torch.ones(6, dtype=torch.bool)}
        chosen, available = method.chosen(fed, state.update(server=server))
        assert available.all() and all(len({i, *others}) == 3 for i, others in enumerate(chosen.tolist()))
        tally.append(sorted(chosen[0].tolist()))
    return tally


def test_the_most_helpful_models_are_tried_and_now_and_then_others():
    simulation = simulations.ragged(6)
    best = [[4, 5]] * 60
    assert preferring(simulation, 0, explore=0.0) == best
    assert preferring(simulation, 6) == best  # ε has fallen to 0
    some = preferring(simulation, 0)
    assert 20 < sum(pair == [4, 5] for pair in some) < 55  # 0.7² = 49 %, and some are drawn again
    drawn = preferring(simulation, 9, explore=1.0, explore_decay=0.0)
    assert {i for pair in drawn for i in pair} == {1, 2, 3, 4, 5}
    assert sum(pair == [4, 5] for pair in drawn) < 20  # a tenth


def test_ties_are_broken_at_random():
    simulation = simulations.ragged(6)
    method = simulations.method("fedfomo", downloads=1, explore=0.0)
    fed = everyone(simulation, 0)
    state = method.setup(fed).update(server={"uploaded": torch.ones(6, dtype=torch.bool)})
    drawn = {int(method.chosen(everyone(simulation, number), state)[0][0]) for number in range(40)}
    assert drawn == {1, 2, 3, 4, 5}


def test_nothing_is_tried_where_nobody_has_uploaded():
    method, fed = simulations.method("fedfomo"), everyone(simulations.ragged(3), 0)
    chosen, available = method.chosen(fed, method.setup(fed))
    assert chosen.shape == available.shape == (3, 0)
    assert isinstance(method.received(fed, method.setup(fed)), Tree)
