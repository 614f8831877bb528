"""Clients who attack: who they are, what they train on and upload, who is scored, and what robust rules make of it."""

import numpy as np
import pytest
import torch
from two_modalities import simulation as two_modalities

from fedgrid.engine.federation.malicious import attacked, with_malicious
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.flipped_labels import with_flipped_labels
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.state import State
from fedgrid.errors import UserError
from fedgrid.loading import names
from fedgrid.settings import Training, identity_of_training
from fedgrid.suite.simulations import (
    assert_close_states,
    assert_equal_states,
    brief,
    by_label,
    method,
    method_class,
    one_round,
    ragged,
    run,
    simulation,
)
from fedgrid.tree import Tree

SETTINGS = ("malicious", "attack", "attack_scale", "aggregation", "assumed_malicious")
UPLOADS = ("sign", "scale", "noise")


def test_a_federation_without_attackers_has_the_keys_that_it_had():
    settings = vars(Training()) | {"rounds": 7}
    assert not set(SETTINGS) & set(identity_of_training(settings))
    attacking = {"malicious": 0.2, "attack": "sign", "aggregation": "krum"}
    assert attacking.items() <= identity_of_training(settings | attacking).items()


def test_who_attacks_is_a_share_of_those_who_can_take_part():
    first, again, other = (ragged(8, malicious=0.25, new_clients=0.25, seed=seed) for seed in (0, 0, 3))
    assert first.malicious == again.malicious != other.malicious
    assert len(first.malicious) == 2  # ⌈0.25·6⌉
    assert not first.malicious & first.new_clients
    assert set(first.scored.tolist()) == set(range(8)) - first.malicious - first.new_clients
    assert first.malicious < set(first.members.tolist())
    assert ragged(1, malicious=0.5).malicious == frozenset()
    assert len(ragged(2, malicious=0.9).malicious) == 1


def test_labels_are_flipped_where_malicious_clients_train_and_nowhere_else():
    shared = by_label()[:6].tolist()
    plain, flipped = (simulation([shared] * 3, malicious=share, classes=10) for share in (0.0, 0.3))
    (bad,) = flipped.malicious
    for client in range(3):
        before, after = (some.data.batch(some.data.train[client]) for some in (plain, flipped))
        assert torch.equal(before.x, after.x)
        assert torch.equal(after.y, 9 - before.y if client == bad else before.y)
        tests = [some.data.batch(some.data.test[client]) for some in (plain, flipped)]
        assert torch.equal(tests[0].y, tests[1].y)
        assert np.array_equal(*(some.data.samples[some.data.train[client]] for some in (plain, flipped)))
    assert torch.equal(flipped.data.counts[bad], plain.data.counts[bad].flip(0))


def test_flipped_labels_of_images_and_texts():
    plain = two_modalities(shared_tests=True).data
    flipped = with_flipped_labels(plain, [3, 0])
    for client in range(plain.clients):
        modality = plain.modalities[plain.modality[client]]
        before, after = (some.batch(some.train[client], modality) for some in (plain, flipped))
        assert torch.equal(before.x, after.x)
        assert torch.equal(after.y, plain.classes - 1 - before.y if client in (3, 0) else before.y)
        before, after = (some.batch(some.test[client], modality) for some in (plain, flipped))
        assert torch.equal(before.x, after.x) and torch.equal(before.y, after.y)
    assert flipped.test[0] is flipped.test[1] and flipped.test[2] is flipped.test[3]


@pytest.mark.parametrize(("attack", "scale", "factor"), [("sign", None, -1), ("sign", 3, -3), ("scale", None, 10)])
def test_what_is_uploaded_by_hand(attack, scale, factor):
    where = ragged(2, malicious=0.5, attack=attack, attack_scale=scale)
    (bad,) = where.malicious
    theta = Tree(a=torch.tensor([1.0, 2.0]), b=torch.tensor(5.0))
    trained = Tree(a=torch.tensor([[2.0, 2.0], [0.0, 3.0]]), b=torch.tensor([4.0, 7.0]))
    uploaded = attacked(where, trained, theta, [0, 1], 0)
    for name, honest in trained.items():
        assert torch.equal(uploaded[name][1 - bad], honest[1 - bad])
        assert torch.equal(uploaded[name][bad], theta[name] + factor * (honest[bad] - theta[name]))


def test_two_clients_of_whom_one_turns_its_update_round():
    images = by_label()[:8].tolist()
    with torch.no_grad():
        where = simulation([images] * 2, malicious=0.5, attack="sign", dtype="float64", batch_size=99)
        _, after = one_round(fedavg := method("fedavg"), where, 0, start := fedavg.setup(everyone(where, 0)))
    for name, t in start.server.theta.items():  # both have the same update, for one batch holds all their images
        torch.testing.assert_close(after.server.theta[name], t, rtol=1e-12, atol=1e-15)


def test_noise_is_a_function_of_seed_client_and_round():
    where = ragged(4, malicious=0.5, attack="noise", attack_scale=2.0)
    bad = sorted(where.malicious)
    theta, trained = Tree(a=torch.zeros(5000)), Tree(a=torch.ones(4, 5000))
    first, again, later = (attacked(where, trained, theta, [0, 1, 2, 3], round_).a for round_ in (0, 0, 1))
    alone = attacked(where, Tree(a=torch.ones(1, 5000)), theta, bad[1:], 0).a
    assert torch.equal(first, again) and not torch.equal(first, later)
    assert torch.equal(first[bad[1]], alone[0]) and not torch.equal(first[bad[0]], first[bad[1]])
    assert first[bad].mean().abs() < 0.1 and abs(first[bad].std() - 2) < 0.1


@pytest.mark.parametrize("attack", UPLOADS)
def test_statistics_of_batch_norm_are_not_attacked(attack):
    where = ragged(4, malicious=0.5, attack=attack, norm="batch", batch_size=8)
    assert run("fedavg", where).status == "ok"
    assert where.model.statistics
    theta = where.initial
    stack = Tree((name, torch.stack([t + 1, t + 2])) for name, t in theta.items())
    uploaded = attacked(where, stack, theta, sorted(where.malicious), 0)
    assert {name for name in stack if torch.equal(uploaded[name], stack[name])} == set(where.model.statistics)


@pytest.mark.parametrize("settings", [{"attack": "labels"}, {"attack": "noise", "aggregation": "krum"}], ids=str)
@pytest.mark.parametrize("name", ["fedavg", "fedper", "ditto", "fedcosr"])
def test_both_executors_agree(name, settings):
    training = {"malicious": 0.2, "dtype": "float64", "rounds": 2, "batch_size": 8} | settings
    states = [run(name, ragged(5, executor=executor, **training)).progress.state for executor in (None, Stacked())]
    assert_close_states(*states)


def test_local_trains_benign_clients_as_if_nobody_attacked():
    under_attack, plain = (run("local", ragged(4, malicious=share)).progress for share in (0.5, 0.0))
    bad = ragged(4, malicious=0.5).malicious
    for name, t in plain.state.clients.theta.items():
        same = [torch.equal(t[client], under_attack.state.clients.theta[name][client]) for client in range(4)]
        assert same == [client not in bad for client in range(4)]


@pytest.mark.parametrize("settings", [{}, {"attack": "sign", "participation": 0.5, "eval_sample": 3, "eval_every": 2}])
@pytest.mark.parametrize("name", ["fedavg", "fedper", "ditto"])
def test_malicious_clients_are_marked_and_not_scored(name, settings):
    where = ragged(6, malicious=0.3, new_clients=0.1, **settings)
    rows = run(name, where).progress.record.rows
    scored = {client for _, metric, clients, _ in rows if "accuracy" in metric for client in clients}
    assert scored == set(range(6)) - where.malicious
    assert [(round_, set(clients)) for round_, metric, clients, _ in rows if metric == "malicious"] == [
        (0, set(where.malicious))
    ]


def test_the_median_survives_what_the_mean_does_not():
    pieces = np.random.default_rng(0).permutation(len(by_label()))[:640].reshape(8, 80)
    train, test = [piece[:60].tolist() for piece in pieces], [piece[60:].tolist() for piece in pieces]

    def accuracy(**training):
        where = simulation(train, test, lr=0.1, local_epochs=4, **training)
        values = [v for _, metric, _, v in run("fedavg", where).progress.record.rows if metric == "accuracy_global"]
        return float(np.mean(values[-1]))

    attack = {"malicious": 0.25, "attack": "sign", "attack_scale": 3.0}
    clean, mean = accuracy(), accuracy(**attack)
    robust = {rule: accuracy(**attack, aggregation=rule) for rule in ("median", "trimmed", "krum", "multi-krum")}
    assert clean > 0.6 and mean < 0.3
    assert all(value > mean + 0.2 for value in robust.values()), robust


def test_lost_uploads_leave_krum_those_that_arrive():
    where = ragged(5, malicious=0.2, attack="sign", aggregation="krum", dropout=0.6, rounds=4)
    assert run("fedavg", where).status == "ok"


def test_a_state_that_goes_on_is_that_of_an_undisturbed_run():
    where = ragged(4, malicious=0.3, attack="noise", rounds=4, aggregation="median")
    chosen, whole = method("fedavg"), run("fedavg", where).progress.state
    with torch.no_grad():
        state = chosen.setup(everyone(where, 0))
        for number in range(4):
            _, state = one_round(chosen, where, number, State(state.server, state.clients))
    assert_equal_states(state, whole)


def test_each_modality_has_its_attackers():
    where = with_malicious(two_modalities(malicious=0.5, attack="sign", aggregation="median"))
    assert len(where.malicious) == 2
    assert federate(method("fedavg"), where).status == "ok"


@pytest.mark.parametrize("training", [{"malicious": 0.3, "attack": "sign"}, {"aggregation": "median"}], ids=str)
@pytest.mark.parametrize("name", names("methods"))
def test_every_method_is_attacked_or_refuses(name, training):
    chosen, where = method(name, **brief(name)), ragged(4, rounds=1, batch_size=8, **training)
    if not method_class(name).averages_uploads:
        with pytest.raises(UserError, match=r"from the average of uploaded models alone; give .* training: {a.*}"):
            federate(chosen, where)
        return
    plain = federate(chosen, ragged(4, rounds=1, batch_size=8)).progress.state
    state = federate(chosen, where).progress.state
    assert any(not torch.equal(t, state.server.theta[key]) for key, t in plain.server.theta.items())


def test_a_method_that_says_so_and_averages_nothing_is_refused_in_its_first_round():
    with pytest.raises(UserError, match=r"training\.attack 'sign' requires .* give FedPer training"):
        run("fedper", ragged(3, malicious=0.3, attack="sign"), local_part="all")


def test_too_few_participants_for_krum_are_refused():
    with pytest.raises(UserError, match="a round has 4"):
        run("fedavg", ragged(4, malicious=0.3, aggregation="krum"))
