"""pFedSim: similarities and weights by hand, and what travels."""

import math

import numpy as np
import pytest
import torch
from nearness import DOUBLE, all_near, near
from trajectories import after_each_round, next_state, numbers, traffic

from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.federation.traffic import Traffic
from fedgrid.engine.rounds import federate
from fedgrid.methods.pfedsim import mixing_weights, similarities
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import row


def states(simulation, **settings):
    """The method, and the states before the first round and after each."""
    method = simulations.method("pfedsim", **settings)
    return method, after_each_round(method, simulation)


def received(method, simulation, number, state):
    with torch.no_grad():
        return method.received(everyone(simulation, number, state), state)


# Similarities and weights


def test_weights_of_similarities_1_half_and_0():
    """Client 0 of three; the first similarity is its own, whatever is stored there."""
    similar = torch.tensor([[0.0, 0.5, 0.0]]).double()
    near(mixing_weights(similar, torch.tensor([0])), [[0.930010, 0.069990, 0.0]], 5e-7)
    near(mixing_weights(similar, torch.tensor([2])), [[0.0, 0.069990, 0.930010]], 5e-7)
    own, other = -math.log(1 - 0.9999), -math.log(1 - 0.5)
    assert (own, other) == pytest.approx((9.210340, 0.693147), abs=5e-7)
    near(mixing_weights(similar, torch.tensor([0])), [[own / (own + other), other / (own + other), 0]], 1e-9)


def test_equal_heads_count_as_much_as_a_clients_own():
    similar = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.99999]]).double()
    near(mixing_weights(similar, torch.tensor([0, 1])), [[1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])


def test_similarities_are_mean_cosines_of_the_rows_of_heads():
    heads = np.random.default_rng(3).normal(size=(4, 5, 6))
    heads[2] = heads[0] * np.array([1, 20, 3, 0.5, 7])[:, None]  # lengths of rows do not count
    heads[3] = -heads[1]
    heads[3, 0] = 0  # a row without a direction has cosine 0 with everything
    expected = np.zeros((4, 4))
    for i in range(4):
        for j in range(4):
            lengths = [np.linalg.norm(heads[i, c]) * np.linalg.norm(heads[j, c]) for c in range(5)]
            cosines = [heads[i, c] @ heads[j, c] / lengths[c] if lengths[c] else 0.0 for c in range(5)]
            expected[i, j] = max(0.0, np.mean(cosines)) if i != j else 0.0
    near(similarities(torch.from_numpy(heads)), expected)
    assert expected[0, 2] == pytest.approx(1) and expected[1, 3] == 0 and 0 < expected[0, 1:].max() <= 1


def test_negative_cosines_of_single_classes_count_in_the_mean():
    heads = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [3.0, -4.0]], [[0.0, 1.0], [0.0, -1.0]]])
    near(similarities(heads), [[0, 0.1, 0], [0.1, 0, 0.4], [0, 0.4, 0]])


# Rounds


def test_statistics_of_batch_norm_are_a_part_of_extractors():
    simulation = simulations.ragged(3, norm="batch", batch_size=8)
    assert set(simulation.model.statistics) < set(final("pfedsim", simulation).server.extractors)


def test_the_number_of_rounds_of_the_warm_up_is_not_cut_by_rounding():
    """0.29 · 100 is 28.999… in floating point."""
    simulation = simulations.ragged(2, rounds=100)
    method = simulations.method("pfedsim", warmup=0.29)
    state = method.setup(everyone(simulation, 0))
    for number, personal in [(28, False), (29, True)]:
        after = next_state(method, simulation, number, state)
        assert after.clients.personal.tolist() == [personal] * 2


def test_clients_with_the_same_labels_have_similar_heads():
    clients = [simulations.draw(labels, 100 * i) for i, labels in enumerate([[0, 1] * 6] * 2 + [[8, 9] * 6] * 2)]
    simulation = simulations.simulation(clients, rounds=6, lr=0.1, local_epochs=3, **DOUBLE)
    state = final("pfedsim", simulation)
    similar = simulations.method("pfedsim").cooperation(state)["similarity"]
    assert min(similar[0, 1], similar[2, 3]) > 1.01 * similar[:2, 2:].max()


# Idle clients, and those with few images


def test_clients_without_images_are_similar_to_nobody():
    train = [simulations.draw(range(6)), [], simulations.draw([3], start=50), simulations.draw([3, 4, 5], start=80)]
    simulation = simulations.simulation(train, [simulations.draw(range(4), start=200)] * 4, rounds=5, **DOUBLE)
    method, ours = states(simulation)
    similar = ours[-1].server.similarity
    assert not similar[1].any() and not similar[:, 1].any() and similar[2, [0, 3]].all()
    all_near(row(received(method, simulation, 5, ours[-1]), 1), ours[2].server.theta, 0)


def test_a_client_whose_upload_is_lost_goes_on_with_its_own_head():
    """Others mix what the server has of it, and it is met by nobody in that round."""
    simulation = simulations.ragged(4, rounds=2, dropout=0.5, **DOUBLE)
    outcome = federate(simulations.method("pfedsim", warmup=0.0), simulation)
    rows = [(number, values) for number, metric, _, values in outcome.progress.record.rows if metric == "upload_lost"]
    losses = [np.asarray(values, dtype=bool) for _, values in rows]
    lost = losses[-1]
    assert lost.any() and not lost.all()
    met = sum(np.outer(~values, ~values) for values in losses) * (1 - np.eye(4)) > 0
    assert met.any() and ((outcome.progress.state.server.similarity > 0).numpy() == met).all()
    state, start = outcome.progress.state, simulation.initial
    for i in range(4):
        assert bool(state.clients.personal[i])
        same = all(
            torch.equal(state.server.extractors[name][i], t[i])
            for name, t in state.clients.theta.items()
            if name.startswith("extractor.")
        )
        assert same == (not lost[i])
        assert not torch.equal(state.clients.theta["head.weight"][i], start["head.weight"])


# What travels


def test_bytes_of_the_phases():
    """w travels in the warm-up and once more; then extractors, where there are others to mix."""
    simulation = simulations.ragged(4, rounds=5, lr=0.1)
    size, body = (4 * numbers(part) for part in (simulation.initial, simulation.initial.part("extractor")))
    sent = {"up": [[size] * 4] * 5, "down": [[size] * 4] * 3 + [[body] * 4] * 2}
    assert traffic("pfedsim", simulation) == sent


def test_bytes_with_few_participants():
    """w travels to a client when it first takes part after the warm-up, whichever round that is."""
    simulation = simulations.ragged(5, participation=0.6, rounds=8, lr=0.1)
    size, body = (4 * numbers(part) for part in (simulation.initial, simulation.initial.part("extractor")))
    drawn = [participants(simulation, number).tolist() for number in range(8)]
    earlier = [set().union(*drawn[2:number]) for number in range(8)]
    expected = [[body if i in earlier[number] else size for i in ids] for number, ids in enumerate(drawn)]
    assert traffic("pfedsim", simulation, warmup=0.25)["down"] == expected
    assert any(set(sent) == {size, body} for sent in expected)


def test_nothing_is_sent_to_a_client_that_is_similar_to_nobody():
    simulation = simulations.ragged(3, rounds=4, **DOUBLE)
    method, ours = states(simulation)
    similar = ours[3].server.similarity.clone()
    similar[0] = similar[:, 0] = 0
    state, traffic = ours[3].update(server={"similarity": similar}), Traffic.none(3, simulation.device)
    with torch.no_grad():
        after = method.round(Federation(simulation, torch.arange(3), 3, traffic, state), state)
    assert (traffic.down > 0).tolist() == [False, True, True]
    alone = everyone(simulation, 3, state)
    with torch.no_grad():
        trained = alone.train(state.clients.theta, method.loss).theta
    all_near(row(after.trained, 0), row(trained, 0), 0)
    assert not torch.equal(after.trained["head.weight"][1], trained["head.weight"][1])
