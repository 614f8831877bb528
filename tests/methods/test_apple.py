"""APPLE: a step by hand, the pull towards p⁰, its rate against FedAvg's, who is idle, and what travels."""

import math
from types import SimpleNamespace

import pytest
import torch
from nearness import DOUBLE, all_near, doubles, near
from trajectories import after_rounds, next_state, numbers, traffic

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.context import LossContext
from fedgrid.methods.apple import APPLE
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree

CORES = ([1.0, 0.0], [0.0, 2.0], [3.0, 3.0])


class Parabola(APPLE):
    """L(u) = ½‖u − (3, 1)‖²."""

    def loss(self, theta, batch, at):
        return (theta["x"] - doubles(3, 1)).square().sum() / 2


def stepped(p, steps=1, core=(1.0, 1.0), pull=0.0, prior=(0.5, 0.25, 0.25), **settings):
    """θ, c, p and the loss after steps at η = 0.1 of client 1 of three, whose own core the server does not have yet."""
    itself = torch.tensor([False, True, False])
    server = Tree(cores=Tree(x=doubles(*CORES)), prior=doubles(*prior), lr=0.1, pull=pull)
    at = LossContext(None, server, Tree(itself=itself), None)
    theta = p[0] * doubles(*CORES[0]) + p[1] * doubles(*core) + p[2] * doubles(*CORES[2])
    own = Tree(core=Tree(x=doubles(*core)), relations=doubles(*p))
    models = own | {"theta": Tree(x=theta), "speed": own.map(torch.zeros_like)}
    for _ in range(steps):
        models, value = Parabola(**settings).step(Tree(models), None, at)
        models = Tree((name, Tree(t) if isinstance(t, dict) else t) for name, t in models.items())
    return models.theta["x"], models.core["x"], models.relations, value


def received(simulation, state, **settings):
    with torch.no_grad():
        return simulations.method("apple", **settings).received(everyone(simulation, 1, state), state)


# Steps by hand


def test_a_step_by_hand():
    """θ = ½(1, 0) + ¼(1, 1) + ¼(3, 3) = (1.5, 1), whose slope is (−1.5, 0)."""
    theta, core, p, value = stepped((0.5, 0.25, 0.25), relation_lr=0.01, momentum=0.0)
    near(value, 1.125)
    near(core, [1 + 0.1 * 0.25 * 1.5, 1])
    near(p, [0.5 + 0.01 * 1.5, 0.25 + 0.01 * 1.5, 0.25 + 0.01 * 4.5])
    near(theta, [0.515 + 0.265 * 1.0375 + 0.295 * 3, 0.265 + 0.295 * 3])


def test_who_has_no_share_gets_no_weight():
    relations = stepped((0.5, 0.5, 0.0), prior=(0.5, 0.5, 0.0), relation_lr=0.1)[2]
    assert relations[2] == 0 and (relations[:2] != 0.5).all()


def test_relationships_may_be_fixed():
    near(stepped((0.5, 0.25, 0.25), steps=3, relation_lr=0.0, pull=0.4)[2], [0.5, 0.25, 0.25], 0)


@pytest.mark.parametrize(
    ("schedule", "rounds", "expected"),
    [
        ("exponential", 40, [0.2, 0.2 * 0.001**0.25, 0.2 * 0.001**0.5, 0.2 * 0.001**0.75, 0, 0]),
        ("cosine", 40, [0.2, 0.1 + 0.1 * math.cos(math.pi / 4), 0.1, 0.1 - 0.1 * math.cos(math.pi / 4), 0, 0]),
        ("cosine", 19, [0.2, 0]),
        ("exponential", 9, [0]),
    ],
)
def test_the_pull_falls_over_a_tenth_of_the_rounds(schedule, rounds, expected):
    training = SimpleNamespace(rounds=rounds)
    method = simulations.method("apple", schedule=schedule)
    near([method.pull(SimpleNamespace(training=training, round=t)) for t in range(len(expected))], expected)
    other = simulations.method("apple", mu=0.3, share=0.5)
    near(other.pull(SimpleNamespace(training=SimpleNamespace(rounds=8), round=2)), 0.6 * 0.001**0.5)


# Rounds


def test_equal_clients_with_fixed_weights_are_fedavg_at_a_rate_n_times_smaller():
    """In rounds of one batch: w − η Σ p_j²∇L_j, with p_j = 1/N."""
    index = [simulations.draw([2 * i, 2 * i + 1] * 4) for i in range(4)]
    apart = simulations.simulation(index, rounds=3, batch_size=8, lr=0.4, **DOUBLE)
    slow = simulations.simulation(index, rounds=3, batch_size=8, lr=0.1, **DOUBLE)
    state, w = final("apple", apart, relation_lr=0.0, momentum=0.0), final("fedavg", slow).server.theta
    all_near(received(apart, state), w.map(lambda t: t.expand(4, *t.shape)), 1e-10)


def test_only_the_studys_rate_follows_its_schedule():
    simulation = simulations.ragged(lr=0.1, lr_schedule="exponential", lr_decay=0.5)
    before = after_rounds("apple", simulation, 1)
    methods = (simulations.method("apple", lr=lr) for lr in (None, 0.05, 0.1))
    usual, halved, other = (next_state(method, simulation, 1, before) for method in methods)
    simulations.assert_equal_states(usual, halved)
    assert not torch.equal(usual.server.cores["head.weight"], other.server.cores["head.weight"])


# Who takes part


def test_weights_start_from_the_numbers_of_images_of_those_who_can_take_part():
    index = [simulations.draw(range(5)), [], simulations.draw([7, 8, 9])]
    simulation = simulations.simulation(index, rounds=2)
    state = final("apple", simulation)
    near(state.server.prior, [0.625, 0, 0.375])
    near(state.clients.relations[1], [0.625, 0, 0.375])
    assert not state.clients.relations[:, 1].any()
    newcomers = simulations.ragged(4, new_clients=0.5)
    setup = simulations.method("apple").setup(everyone(newcomers, 0)).server.prior
    images = torch.tensor([float(len(rows)) for rows in newcomers.data.train])
    able = torch.tensor([i in newcomers.members.tolist() for i in range(4)])
    assert able.sum() == 2
    near(setup, images * able / images[able].sum(), 1e-7)


def test_a_lost_upload_leaves_a_client_its_own_core():
    """The server has the old one; the client goes on from its own, with which it also mixes."""
    simulation = simulations.ragged(2, rounds=1, dropout=1.0, **DOUBLE)
    state, alone = final("apple", simulation), final("apple", simulations.ragged(2, rounds=1, **DOUBLE))
    start = everyone(simulation, 0).initial()
    all_near(state.server.cores, start.map(lambda t: t.expand(2, *t.shape)), 0)
    all_near(state.clients.core, alone.clients.core, 0)
    mixed, p = received(simulation, state), state.clients.relations
    own, other = state.clients.core["head.weight"], start["head.weight"]
    near(mixed["head.weight"][0], p[0, 0] * own[0] + p[0, 1] * other)
    near(mixed["head.weight"][1], p[1, 1] * own[1] + p[1, 0] * other)


# Other models, and what travels


def test_statistics_of_batch_norm_are_a_clients_own():
    """Those of θ_i on its images, whatever the signs of its weights; they do not travel."""
    simulation = simulations.ragged(3, norm="batch", batch_size=16, rounds=2, **DOUBLE)
    names = simulation.model.statistics
    state = after_rounds("apple", simulation, 2)
    assert names and not set(names) & (set(state.server.cores) | set(state.clients.core))
    mixed = received(simulation, state)
    for name in names:
        near(mixed[name], state.trained[name], 0)
        assert mixed[name].unique(dim=0).shape == mixed[name].shape
    for i in range(3):
        theta = Tree((name, t[i]) for name, t in state.trained.items())
        moments = simulation.model.moments(theta, simulation.data.batch(simulation.data.train[i]).x)
        for name in names:
            if name.endswith("mean"):
                near(theta[name], moments[name], 1e-10)


def test_all_cores_but_a_clients_own_come_down():
    simulation = simulations.ragged(participation=0.6)
    size = numbers(simulation.initial)
    assert traffic("apple", simulation) == {"up": [[4 * size] * 3] * 3, "down": [[4 * 4 * size] * 3] * 3}


def test_only_a_pull_needs_the_number_of_rounds():
    simulation = simulations.ragged(2)
    assert simulations.run("apple", simulation).progress.reads
    assert not simulations.run("apple", simulation, mu=0.0).progress.reads


def test_clients_with_like_images_find_each_other():
    """Two have digits 0 and 1, two others 8 and 9; of the others' cores the like one gets the largest weight."""
    index = [simulations.draw(pair * 8, start=200 * (i % 2)) for i, pair in enumerate([[0, 1]] * 2 + [[8, 9]] * 2)]
    simulation = simulations.simulation(index, rounds=20, lr=0.1, **DOUBLE)
    p = final("apple", simulation, relation_lr=0.01).clients.relations
    for i, twin in enumerate((1, 0, 3, 2)):
        strangers = [j for j in range(4) if j not in (i, twin)]
        assert p[i, twin] > p[i, strangers].max()
