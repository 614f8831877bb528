"""FedCAC: masks, overlaps and thresholds by hand, and its limits."""

from types import SimpleNamespace

import pytest
import torch
from nearness import all_near, near
from trajectories import after_each_round, after_rounds

from fedgrid.engine.federation.participation import participants
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final, used
from fedgrid.tree import Tree, row, tree_map

ANY_NAMES = SimpleNamespace(parameters=lambda tree: tree)


def masks(*rows):
    return Tree(a=torch.tensor(rows)[:, :1].bool(), b=torch.tensor(rows)[:, 1:].bool())


@pytest.mark.parametrize(
    ("tau", "marks"),
    [(0.0, [0, 0, 0, 0]), (0.25, [1, 0, 1, 0]), (0.5, [1, 0, 1, 0]), (0.75, [1, 0, 1, 1]), (1.0, [1, 1, 1, 1])],
)
def test_the_largest_products_of_movement_and_value_are_marked(tau, marks):
    """They are 0.5, 0.2, 0.5 and 0.4; the first and the third are equal, and so marked together."""
    theta = Tree(a=torch.tensor([[1.0, -2.0, 0.5, 4.0]]))
    start = Tree(a=torch.tensor([[0.5, -1.9, 1.5, 4.1]]))
    assert simulations.method("fedcac", tau=tau).important(ANY_NAMES, start, theta).a.int().tolist() == [marks]


def test_each_row_and_tensor_has_its_own_threshold():
    start = Tree(a=torch.zeros(2, 2, 2), b=torch.zeros(2, 4))
    theta = Tree(
        a=torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[8.0, 7.0], [6.0, 5.0]]]),
        b=torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 0.1]]),
    )
    marks = simulations.method("fedcac", tau=0.5).important(ANY_NAMES, start, theta)
    assert marks.a.int().tolist() == [[[0, 0], [1, 1]], [[1, 1], [0, 0]]]
    assert marks.b.int().tolist() == [[0, 0, 1, 1], [0, 0, 0, 1]]  # what has not moved is never marked


def test_overlaps_and_collaborators_of_three_clients():
    method = simulations.method("fedcac", beta=4)
    overlaps = method.overlaps(masks([1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0]))
    near(overlaps, [[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]])
    for number in range(4):  # thresholds 0.75, 0.8333, 0.9167 and 1
        together = method.collaborators(overlaps, number)
        assert together.int().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    assert method.collaborators(overlaps, 4).int().tolist() == torch.eye(3).int().tolist()


@pytest.mark.parametrize(("number", "pairs"), [(0, 2), (3, 2), (4, 1), (9, 1), (10, 0)])
def test_the_threshold_rises_from_the_mean_to_the_largest_overlap(number, pairs):
    """Overlaps are 0.2, 0.8 and 0.65 both ways, and so the threshold is 0.55 + 0.025·(t + 1)."""
    overlaps = torch.eye(3).double()
    for (i, j), value in {(0, 1): 0.2, (0, 2): 0.8, (1, 2): 0.65}.items():
        overlaps[i, j] = overlaps[j, i] = value
    together = simulations.method("fedcac", beta=10).collaborators(overlaps, number)
    assert int(together.sum()) == 3 + 2 * pairs


def test_where_all_overlaps_are_equal_everyone_collaborates_for_ever():
    """However their mean is rounded."""
    method = simulations.method("fedcac", beta=3)
    for share in range(1, 100):
        overlaps = torch.full((7, 7), share / 100, dtype=torch.float64)
        assert all(method.collaborators(overlaps, number).all() for number in (0, 2, 50))


def test_overlap_is_relative_to_the_clients_own_marks():
    overlaps = simulations.method("fedcac").overlaps(masks([1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]))
    near(overlaps, [[1, 2 / 3, 0.5], [0, 1, 0.5], [0, 0, 0]])


def test_twins_always_collaborate():
    """Of clients 0 and 1, who have the same images, and 2, who has others."""
    clients = [simulations.draw(labels) for labels in ([0, 1, 2, 3], [0, 1, 2, 3], [6, 7, 8, 9])]
    simulation = simulations.simulation(clients, rounds=4, batch_size=99, dtype="float64")
    method = simulations.method("fedcac", beta=4)
    for state in after_each_round(method, simulation)[1:]:
        near(method.overlaps(state.clients.important)[0, 1], 1.0)
        mean = tree_map(lambda t: t[:2].mean(dim=0), state.trained)
        for i, expected in enumerate((mean, mean, row(state.trained, 2))):
            all_near(row(state.clients.mixture, i), expected)


def test_a_participant_alone_collaborates_with_nobody():
    simulation = simulations.ragged(participation=0.2, rounds=1)
    state, (client,) = after_rounds("fedcac", simulation, 1), participants(simulation, 0).tolist()
    all_near(row(state.clients.mixture, client), row(state.trained, 0), 0)


def test_statistics_of_batch_norm_stay_with_the_client():
    simulation = simulations.ragged(3, norm="batch", batch_size=8)
    state, models = final("fedcac", simulation), used("fedcac", simulation)
    assert simulation.model.statistics and not set(simulation.model.statistics) & set(state.clients.important)
    for name in simulation.model.statistics:
        own = state.clients.statistics[name]
        assert torch.equal(models[name], own) and not torch.equal(own[0], own[1])
        sizes = torch.tensor([len(index) for index in simulation.data.train])
        torch.testing.assert_close(state.server.theta[name], (sizes / sizes.sum()) @ own)
    assert not torch.equal(models["head.bias"][0], models["head.bias"][1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_moves_by_rounding_alone_is_not_marked(dtype):
    """A bias before batch norm has no gradient but rounding."""
    simulation = simulations.ragged(3, norm="batch", batch_size=8, local_epochs=3, dtype=dtype)
    state = after_rounds("fedcac", simulation, 2)
    before, biases = simulation.model.initial(0)["extractor.1.bias"], state.trained["extractor.1.bias"]
    assert (biases != before).any() and not state.clients.important["extractor.1.bias"].any()
    assert state.clients.important["extractor.1.weight"].flatten(1).any(dim=1).all()


def test_a_client_whose_upload_is_lost_keeps_its_marks():
    state = final("fedcac", simulations.ragged(3, dropout=1.0, rounds=1))
    assert not any(mask.any() for mask in state.clients.important.values())
