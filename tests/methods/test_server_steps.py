"""FedOpt, FedDyn and FedExP: rounds of a few numbers, worked out by hand, and limits that are no other method."""

import pytest
import torch
from nearness import all_near, near
from trajectories import after_each_round, next_state

from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.participation import everyone
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree, leaves

STEPPING = [
    ("fedopt", {"kind": "momentum"}),
    ("fedopt", {"kind": "adam"}),
    ("fedopt", {"kind": "yogi"}),
    ("fedopt", {"kind": "adagrad"}),
    ("feddyn", {"alpha": 0.5}),
    ("feddyn", {"alpha": 0.5, "readout": "average"}),
    ("fedexp", {}),
]
ADAPTIVE = ("adam", "yogi", "adagrad")
WITH_NORM = {"norm": "batch", "batch_size": 8, "dtype": "float64"}


@pytest.fixture
def vectors(monkeypatch):
    """A function after which θ is a vector x, and the loss of a batch a function of x and its labels."""

    def use(start, loss):
        monkeypatch.setattr(Federation, "initial", lambda fed: Tree(x=torch.tensor(start, dtype=torch.float64)))
        monkeypatch.setattr(Method, "loss", lambda self, theta, batch, at: loss(theta["x"], batch.y))

    return use


def labelled(*labels, **training):
    """Clients with images of these labels alone, which they go through in one batch, in float64."""
    clients = [simulations.draw(of_client) for of_client in labels]
    return simulations.simulation(clients, **{"batch_size": 99, "dtype": "float64"} | training)


def along(*updates):
    """A loss whose gradient is −updates[y], so that a step of rate 1 on images of label y is updates[y]."""
    table = torch.tensor(updates, dtype=torch.float64)
    return lambda x, y: -(table[y].mean(dim=0) * x).sum()


def of_updates(vectors, method, start, *rounds, labels=([0],)):
    """The states of rounds in which clients with these labels move by the given updates of each label."""
    simulation = labelled(*labels, lr=1.0)
    vectors(start, along(*rounds[0]))
    with torch.no_grad():
        states = [method.setup(everyone(simulation, 0))]
        for number, updates in enumerate(rounds):
            vectors(start, along(*updates))
            states.append(simulations.one_round(method, simulation, number, states[-1])[1])
    return states


# What all three share


@pytest.mark.parametrize(("name", "settings"), STEPPING)
def test_statistics_are_plain_averages_and_have_no_moments(name, settings):
    simulation = simulations.ragged(3, rounds=3, **WITH_NORM)
    statistics = simulation.model.statistics
    p = everyone(simulation, 0).weights
    assert statistics
    for state in after_each_round(simulations.method(name, **settings), simulation)[1:]:
        for entry in statistics:
            near(state.server.theta[entry], (p[:, None] * state.trained[entry]).sum(dim=0))
        for moment in ("first", "second", "drift"):
            for part in (state.server, state.clients):
                assert not set(statistics) & set(part.get(moment, {}))


@pytest.mark.parametrize(("name", "settings"), STEPPING)
def test_a_server_whose_clients_do_not_move_stays(name, settings):
    simulation = simulations.ragged(3, rounds=2, local_epochs=0, **WITH_NORM)
    start = simulation.model.initial(0)
    state = final(name, simulation, **settings)
    all_near(state.server.theta, {entry: t.double() for entry, t in start.items()})
    for entry, t in simulation.model.parameters(start).items():
        assert torch.equal(state.server.theta[entry], t.double())


# FedOpt


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_fedopt_leaves_a_coordinate_alone_that_never_moved(vectors, kind):
    states = of_updates(vectors, simulations.method("fedopt", kind=kind, start=0.0), [1.0, 1.0], [[0.4, 0.0]])
    moved, still = states[-1].server.theta.x
    assert moved > 1.02 and still == 1


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_fedopt_starts_v_at_the_square_of_tau(kind):
    fed = everyone(simulations.ragged(2, dtype="float64"), 0)
    usual, other = (simulations.method("fedopt", kind=kind, **given).setup(fed) for given in ({}, {"start": 0.25}))
    assert all((t == 1e-3**2).all() for t in leaves(usual.server.second))
    assert all((t == 0.25).all() for t in leaves(other.server.second))
    assert not any(t.any() for t in leaves(usual.server.first))


def test_fedopt_coasts_through_a_round_in_which_nobody_moves():
    method = simulations.method("fedopt", kind="momentum", server_lr=0.5)
    training, still = (simulations.ragged(3, local_epochs=epochs, **WITH_NORM) for epochs in (1, 0))
    before = after_each_round(method, training, rounds=1)[-1]
    after = next_state(method, still, 1, before)
    for name in training.model.statistics:
        near(after.server.theta[name], before.server.theta[name])
    assert max(m.abs().max() for m in leaves(before.server.first)) > 1e-2
    for name, m in before.server.first.items():
        near(after.server.first[name], 0.9 * m)
        near(after.server.theta[name], before.server.theta[name] + 0.5 * 0.9 * m)


# FedDyn


def test_feddyn_rests_at_the_optimum_of_the_mean_loss(vectors):
    """Curvatures 1 and 3 around 0 and 4, nearly exact minimisers: w = 3, where the gradients are ±3 = −α·d."""
    vectors([1.0], lambda x, y: ((1 + y / 2) * (x - y).square()).mean() / 2)
    simulation = labelled([0], [4], lr=0.25, local_epochs=20)
    state = after_each_round(simulations.method("feddyn", alpha=2.0), simulation, rounds=40)[-1]
    near(state.server.theta.x, [3.0], 1e-9)
    near(-2.0 * state.clients.drift.x.flatten(), [3.0, -3.0], 1e-9)
    near(state.trained.x.flatten(), [3.0, 3.0], 1e-9)


def test_feddyn_counts_the_clients_that_have_images():
    """With others in N, d̄ would stay behind the mean of the two that take part."""
    index = [simulations.draw(range(5)), simulations.draw([6, 7, 8]), [], []]
    simulation = simulations.simulation(index, [simulations.draw([0])] * 4, dtype="float64")
    state = final("feddyn", simulation)
    all_near(state.server.drift, {name: t[:2].mean(dim=0) for name, t in state.clients.drift.items()})
    assert not any(t[2:].any() for t in leaves(state.clients.drift))


@pytest.mark.parametrize(("alpha", "batch_size"), [(0.0, 4), (0.5, 99)])
def test_feddyn_doubles_the_first_step_of_equal_clients(alpha, batch_size):
    """w¹ = 2·mean − w⁰; with one step a round, which starts at w, for every α."""
    clients = [simulations.draw(range(i, i + 5), start=40 * i) for i in range(3)]
    simulation = simulations.simulation(clients, rounds=1, batch_size=batch_size, dtype="float64")
    ours = final("feddyn", simulation, alpha=alpha).server.theta
    all_near(ours, final("fedopt", simulation, kind="momentum", server_lr=2.0).server.theta)


def test_feddyn_may_weigh_all_clients_the_same_by_size():
    clients = [simulations.draw(range(i, i + 5), start=40 * i) for i in range(3)]
    simulation = simulations.simulation(clients, dtype="float64")
    plain, sized = (final("feddyn", simulation, by_size=by_size).server.theta for by_size in (False, True))
    all_near(sized, plain)


def test_feddyn_sends_the_same_model_whatever_is_scored():
    simulation = simulations.ragged(rounds=2, dtype="float64")
    cloud, average = (simulations.method("feddyn", readout=readout) for readout in ("cloud", "average"))
    ours, theirs = (after_each_round(method, simulation)[-1] for method in (average, cloud))
    all_near(ours.server.theta, theirs.server.theta, 0)
    all_near(average.global_model(ours), {name: t.mean(dim=0) for name, t in ours.trained.items()})
    fed = everyone(simulation, 2, ours)
    all_near(average.used(fed, ours), fed.replicate(theirs.server.theta), 0)
    assert max(t.abs().max() for t in leaves(ours.server.drift)) > 1e-3


# FedExP


@pytest.mark.parametrize("updates", [[[3.0, 1.0], [3.0, 1.0]], [[3.0, 1.0], [2.0, 1.5]]])
def test_fedexp_never_goes_less_far_than_the_mean(vectors, updates):
    _, after = of_updates(vectors, simulations.method("fedexp"), [0.0, 0.0], updates, labels=([0], [1]))
    near(after.server.theta.x, torch.tensor(updates).mean(dim=0))


def test_fedexp_stays_where_updates_cancel(vectors):
    """η_g is no more than Σ p_i‖Δ_i‖²/(2nε) = 5/(4ε)."""
    opposite = torch.tensor([[2.0, 1.0], [-2.0, -1.0]], dtype=torch.float64)
    method = simulations.method("fedexp", eps=0.01)
    near(method.extrapolation(opposite @ opposite.T, torch.tensor([0.5, 0.5]).double()), 125.0, 1e-9)
    _, after = of_updates(vectors, method, [1.0, 1.0], opposite.tolist(), labels=([0], [1]))
    near(after.server.theta.x, [1.0, 1.0])


def test_fedexp_does_not_extrapolate_from_nothing():
    nothing, half = torch.zeros(2, 2).double(), torch.tensor([0.5, 0.5]).double()
    assert simulations.method("fedexp").extrapolation(nothing, half) == 1


def test_fedexp_scores_the_mean_of_its_last_two_models():
    simulation = simulations.ragged(rounds=2, dtype="float64")
    averaged, last = (simulations.method("fedexp", averaged=flag) for flag in (True, False))
    ours, theirs = (after_each_round(method, simulation) for method in (averaged, last))
    for state, other in zip(ours, theirs, strict=True):
        all_near(state.server.theta, other.server.theta, 0)
    before, after = (state.server.theta for state in ours[1:])
    all_near(averaged.global_model(ours[-1]), {name: (before[name] + after[name]) / 2 for name in after})
    all_near(last.global_model(theirs[-1]), after, 0)
    all_near(averaged.global_model(ours[0]), ours[0].server.theta, 0)
    fed = everyone(simulation, 2, ours[-1])
    all_near(averaged.used(fed, ours[-1]), fed.replicate(after), 0)
    assert (before["head.weight"] - after["head.weight"]).abs().max() > 1e-3


def test_fedexp_extrapolates_on_unequal_clients():
    """Clients without a class in common pull apart; with a large ε the step is FedAvg's, which is shorter."""
    clients = [simulations.draw([i] * 4) for i in range(5)]
    simulation = simulations.simulation(clients, rounds=1, local_epochs=5, lr=0.1, dtype="float64")
    start = simulation.model.initial(0)["head.bias"].double()
    far, near_ = (final("fedexp", simulation, eps=eps).server.theta["head.bias"] - start for eps in (1e-6, 1e6))
    rate = far / near_
    near(rate, torch.full_like(rate, float(rate[0])), 1e-6)
    assert rate[0] > 1.2
