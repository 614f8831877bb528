"""Participants that never start, are slow, or lose their upload; clients that join after the last round."""

import numpy as np
import pytest
import torch
from trajectories import brief, recorded

from fedgrid.engine.federation.failures import lost_uploads, round_with_failures, started, stragglers
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.participation import drawn, everyone
from fedgrid.engine.federation.traffic import Traffic
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.state import State
from fedgrid.settings import Training, identity_of_training
from fedgrid.suite.simulations import assert_close_states, method, ragged
from fedgrid.tree import row

pytestmark = pytest.mark.usefixtures("without_gradients")
METHODS = ("fedavg", "ditto", "scaffold", "fednova", "fedpac", "pfedgraph", "pfedhn", "fedcosr", "perfedavg")


@pytest.fixture
def without_gradients():
    with torch.no_grad():
        yield


def of_round(where, state, number=0, **options):
    """All clients of a simulation in a round, with its stragglers."""
    ids = np.arange(where.data.clients)
    traffic = Traffic.none(len(ids), where.device)
    work = stragglers(where, ids, number)
    return Federation(where, torch.from_numpy(ids), number, traffic, state, work=work, **options)


def after_setup(name, where):
    """The method, and its state before the first round."""
    chosen = brief(name)
    return chosen, chosen.setup(everyone(where, 0))


def metric(progress, name):
    """Round → {client: value} of a recorded metric."""
    return {done: values for (done, own), values in recorded(progress).items() if own == name}


def uploads_of_a_round(where):
    """The first round in which some uploads are lost, and some are not: its number and whose are lost."""
    for number in range(100):
        lost = lost_uploads(of_round(where, State(), number))
        if 0 < lost.sum() < len(lost):
            return number, lost
    raise AssertionError


def test_the_server_learns_from_the_uploads_that_arrive():
    where = ragged(5, dropout=0.5)
    number, lost = uploads_of_a_round(where)
    fedavg, s = after_setup("fedavg", where)
    fed = of_round(where, s, number)
    state = round_with_failures(fedavg, fed)
    arrived = fed.subset(torch.from_numpy(np.flatnonzero(~lost)))
    theta = arrived.average(arrived.train(arrived.replicate(s.server.theta), fedavg.loss).theta)
    assert_close_states(State(server=state.server), State(server={"theta": theta}), tolerance=0.0)
    trained = fed.train(fed.replicate(s.server.theta), fedavg.loss).theta
    assert_close_states(State(server=state.trained), State(server=trained), tolerance=0.0)
    assert (fed.traffic.up > 0).all() and (fed.traffic.down == fed.traffic.up).all()


def test_a_client_keeps_what_it_trained_and_the_server_what_it_made():
    where = ragged(5, dropout=0.5)
    number, lost = uploads_of_a_round(where)
    ditto, s = after_setup("ditto", where)
    unreliable, reliable = (of_round(w, s, number) for w in (where, ragged(5)))
    personal = round_with_failures(ditto, unreliable).clients
    assert_close_states(State(clients=personal), State(clients=ditto.round(reliable, s).clients), tolerance=0.0)
    mixing, s = after_setup("pfedgraph", where)
    mixtures = round_with_failures(mixing, of_round(where, s, number)).clients
    changed = (mixtures.theta["head.weight"] != s.clients.theta["head.weight"]).flatten(1).any(dim=1).numpy()
    assert (changed == ~lost).all() and (mixtures.served.numpy() == ~lost).all()


@pytest.mark.parametrize("name", METHODS)
def test_without_any_upload_the_server_stays_as_it_was(name):
    where = ragged(3, dropout=1.0)
    chosen, s = after_setup(name, where)
    state = round_with_failures(chosen, of_round(where, s))
    assert_close_states(State(server=state.server), State(server=s.server), tolerance=0.0)
    assert len(state.trained["head.weight"]) == 3


def test_who_never_starts_sends_and_receives_nothing():
    where = ragged(5, dropout=0.5, dropout_at="start", rounds=8)
    progress = federate(method("fedavg"), where).progress
    sent = metric(progress, "bytes_up")
    for number in range(8):
        expected = started(where, drawn(where, number), number).tolist()
        assert list(sent.get(number + 1, {})) == expected
    assert any(len(clients) < 5 for clients in sent.values()) and "upload_lost" not in {
        row[1] for row in progress.record.rows
    }


def test_a_round_without_participants_changes_nothing():
    where = ragged(3, dropout=1.0, dropout_at="start", rounds=2)
    progress = federate(method("scaffold"), where).progress
    assert progress.rounds == 2 and not any(metric(progress, "bytes_up").values())
    accuracy = metric(progress, "accuracy_received")
    assert accuracy[0] == accuracy[1] == accuracy[2]


@pytest.mark.parametrize("executor", [Loop(), Stacked()])
def test_a_straggler_takes_the_first_of_its_steps(executor):
    settings = {"batch_size": 4, "local_epochs": 3, "executor": executor}
    slow = ragged(5, stragglers=1.0, straggler_work=0.4, **settings)
    fedavg, s = after_setup("fedavg", slow)
    fed = of_round(slow, s)
    steps = fed.train(fed.replicate(s.server.theta), fedavg.loss).steps
    full = [3 * -(-len(index) // 4) for index in slow.data.train]
    assert steps.tolist() == [max(1, int(0.4 * count)) for count in full]
    few = ragged(5, executor=executor, batch_size=4)
    for client, count in enumerate(steps.tolist()):
        alone, counted = (of_round(w, s).subset(torch.tensor([client])) for w in (slow, few))
        theirs = counted.train(counted.replicate(s.server.theta), fedavg.loss, steps=count).theta
        ours = alone.train(alone.replicate(s.server.theta), fedavg.loss).theta
        assert_close_states(State(server=ours), State(server=theirs))


def test_some_participants_are_slow_in_some_rounds():
    where = ragged(5, stragglers=0.5, straggler_work=0.25, rounds=6)
    work = metric(federate(method("fednova"), where).progress, "work")
    values = [value for clients in work.values() for value in clients.values()]
    assert set(values) == {0.25, 1.0} and len({tuple(clients.values()) for clients in work.values()}) > 1
    assert {round_ - 1: stragglers(where, np.arange(5), round_ - 1) for round_ in work} == {
        round_ - 1: {client: 0.25 for client, value in clients.items() if value < 1} for round_, clients in work.items()
    }


@pytest.mark.parametrize("name", METHODS)
def test_both_executors_agree(name):
    settings = {"dropout": 0.4, "stragglers": 0.5, "new_clients": 0.2, "dtype": "float64", "rounds": 2}
    ours, theirs = (
        federate(brief(name), ragged(5, executor=executor, **settings)).progress for executor in (Loop(), Stacked())
    )
    assert_close_states(ours.state, theirs.state)


def test_new_clients_join_after_the_last_round():
    where = ragged(5, new_clients=0.4, rounds=2, eval_sample=4, eval_every=2)
    assert len(where.new_clients) == 2 and len(where.members) == 3
    fedavg = method("fedavg")
    progress = federate(fedavg, where).progress
    members, new = set(where.members.tolist()), set(where.new_clients)
    assert all(set(clients) == members for clients in metric(progress, "bytes_up").values())
    assert all(set(clients) == members for clients in metric(progress, "accuracy_received").values())
    assert set(metric(progress, "new_accuracy_received")) == {2}
    assert set(metric(progress, "new_accuracy_received")[2]) == set(metric(progress, "new_accuracy_trained")[2]) == new
    state = progress.state
    joined = everyone(where, 1, State(state.server)).subset(torch.tensor(sorted(new)))
    theta = joined.train(joined.replicate(state.server.theta), fedavg.loss).theta
    accuracy = metric(progress, "new_accuracy_trained")[2]
    for position, client in enumerate(sorted(new)):
        test = where.data.batch(where.data.test[client], "")
        hits = where.model(row(theta, position), test.x).argmax(dim=1) == test.y
        assert accuracy[client] == pytest.approx(hits.double().mean().item())


def test_at_least_one_client_is_no_new_one():
    assert len(ragged(2, new_clients=0.9).members) == 1
    assert ragged(1, new_clients=0.5).new_clients == frozenset()


def test_a_federation_without_failures_has_the_keys_that_it_had():
    settings = vars(Training()) | {"rounds": 7}
    identity = identity_of_training(settings)
    assert not {"dropout", "dropout_at", "stragglers", "straggler_work", "new_clients"} & set(identity)
    assert identity_of_training(settings | {"dropout": 0.1})["dropout"] == 0.1
