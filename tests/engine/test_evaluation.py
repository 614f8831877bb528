"""What clients are tested on: their own images or the official ones, weighted or not; held-out images beside."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from studies import prepared, study_of
from torch.testing import assert_close
from trajectories import recorded

from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.client_data import load
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.files import read_metadata
from fedgrid.suite import simulations


def scores(simulation, metric):
    """Values of a metric after the last round, by client."""
    rows = recorded(simulations.run("fedavg", simulation).progress)
    return rows[simulation.training.rounds, metric]


def predictions(simulation, index):
    outcome = federate(simulations.method("fedavg"), simulation)
    theta = outcome.progress.state.server.theta
    return simulation.model(theta, simulation.data.batch(index).x)


@pytest.mark.parametrize("executor", [Loop, Stacked])
def test_the_official_test_set_weighted_by_a_clients_classes(executor):
    train = [simulations.draw([0, 0, 0, 1]), simulations.draw([2, 3], 40), simulations.draw([1, 8], 80)]
    official = torch.tensor(simulations.draw([0, 0, 1, 2, 2, 2, 3, 5], 400))
    simulation = simulations.simulation(train, executor=executor())
    shared = replace(simulation, data=replace(simulation.data, test=[official] * 3, weighted=True))
    hit = (predictions(shared, official).argmax(dim=1) == shared.data.labels[official]).double().numpy()
    actual = scores(shared, "accuracy_global")
    hits = {c: hit[shared.data.labels[official].numpy() == c].sum() for c in (0, 1, 2, 3)}
    # Σ q·correct / Σ q·images: 2, 1, 3 and 1 test images are of the classes 0, 1, 2 and 3
    assert actual[0] == pytest.approx((0.75 * hits[0] + 0.25 * hits[1]) / (0.75 * 2 + 0.25 * 1))
    assert actual[1] == pytest.approx((0.5 * hits[2] + 0.5 * hits[3]) / (0.5 * 3 + 0.5 * 1))
    assert actual[2] == pytest.approx(hits[1])  # no test image shows its class 8
    unweighted = replace(simulation, data=replace(simulation.data, test=[official] * 3))
    assert list(scores(unweighted, "accuracy_global").values()) == pytest.approx([hit.mean()] * 3)


def test_a_client_of_whose_classes_none_is_tested_has_no_score():
    train = [simulations.draw([0, 0, 1]), simulations.draw([8, 8], 40), simulations.draw([1, 2], 80)]
    official = torch.tensor(simulations.draw([0, 1, 2], 400))
    simulation = simulations.simulation(train)
    shared = replace(simulation, data=replace(simulation.data, test=[official] * 3, weighted=True))
    for metric in ("accuracy_global", "loss_global", "accuracy_trained"):
        assert list(scores(shared, metric)) == [0, 2]


def test_validation_images_are_scored_beside_and_change_nothing():
    simulation = simulations.ragged()
    held_out = [torch.tensor(simulations.draw([1, 2], 900 + 50 * i)) for i in range(5)]
    both = replace(simulation, data=replace(simulation.data, validation=held_out))
    assert scores(both, "accuracy_received") == scores(simulation, "accuracy_received")
    other = replace(simulation, data=replace(simulation.data, test=held_out))
    assert scores(both, "validation_accuracy_trained") == scores(other, "accuracy_trained")
    assert scores(both, "validation_loss_global") == scores(other, "loss_global")


def calls_of_test(monkeypatch, name):
    """How many passes over test images the last evaluation of a method makes."""
    passes, usual = [], Federation.test
    monkeypatch.setattr(Federation, "test", lambda fed, *a, **k: passes.append(fed.round) or usual(fed, *a, **k))
    federate(simulations.method(name), simulations.ragged(rounds=2, eval_every=2))
    return sum(done > 0 for done in passes)


@pytest.mark.parametrize(
    ("name", "passes"), [("local", 1), ("ditto", 2), ("fedavg", 2), ("fedper", 2), ("fedproto", 2), ("fedavg_ft", 3)]
)
def test_no_model_is_scored_twice(monkeypatch, name, passes):
    """Local's and Ditto's clients go on from what they trained; FedAvg's received model is the global one."""
    assert calls_of_test(monkeypatch, name) == passes


def test_a_score_that_is_two_points_is_recorded_as_both():
    rows = recorded(simulations.run("local", simulations.ragged(participation=0.5)).progress)
    trained, received = rows[3, "accuracy_trained"], rows[3, "accuracy_received"]
    assert len(trained) == 2 and len(received) == 5
    assert trained == {client: received[client] for client in trained}
    rows = recorded(simulations.run("fedavg", simulations.ragged()).progress)
    assert rows[3, "accuracy_global"] == rows[3, "accuracy_received"] != rows[3, "accuracy_trained"]


def test_trained_models_are_scored_in_the_state_that_they_trained_in():
    """FedProto predicts by prototypes: before local training by new ones, after it by those of the round."""
    simulation = simulations.ragged(lr=0.2, dtype="float64")
    method, states = simulations.method("fedproto"), []
    rows = federate(method, simulation, tell=lambda progress, _: states.append(progress.state)).progress.record.rows
    actual = {metric: values for done, metric, _, values in rows if done == 3}
    before, after = states[-2], states[-1]
    for metric, state in (("loss_received", after), ("loss_trained", before)):
        with torch.no_grad():
            expected = everyone(simulation, 3, state).test(after.clients.theta, losses_by(method)).loss
        assert actual[metric] == pytest.approx((expected / 9).tolist(), rel=1e-9)
    assert actual["loss_received"] != pytest.approx(actual["loss_trained"], rel=1e-3)


def losses_by(method):
    def losses(theta, batch, at):
        scores = method.predict(theta, batch.x, at)
        return {"loss": torch.nn.functional.cross_entropy(scores, batch.y, reduction="sum")}

    return losses


def test_clients_that_were_never_drawn_are_scored_with_fedalas_weights_as_they_start():
    """The first phase of a hundred passes belongs to rounds, not to evaluation."""
    simulation = simulations.ragged(rounds=2, participation=0.4, lr=0.2)
    method = simulations.method("fedala", eta=5.0)
    state = federate(method, simulation).progress.state
    idle = ~state.clients.started
    fed = everyone(simulation, 2, state)
    with torch.no_grad():
        received, adapted = method.received(fed, state), method.adapted(fed, state)
    head = "head.weight"
    assert idle.any() and torch.equal(adapted[head][idle], received[head][idle])
    assert_close(received[head][idle], fed.replicate(state.server.theta)[head][idle])
    assert idle.all() or not torch.equal(adapted[head], received[head])


@pytest.mark.parametrize("test", ["own", "official", "weighted"])
def test_a_partition_as_it_is_read(tmp_path, test):
    study = study_of(
        results=str(tmp_path),
        data={"name": "synthetic", "size": 8, "train_images": 300, "test_images": 60},
        heterogeneity=[{"partition": "quantity", "clients": 4, "test": test, "validation": 0.25}],
        seeds=[0],
    )
    (partition,) = prepared(study).partitions.values()
    data = load(partition.data.files, partition.file, torch.device("cpu"))
    lists = [data.train, data.validation, *([data.test] if test == "own" else [])]
    own = torch.cat([index for rows in lists for index in rows])
    assert len(own.unique()) == len(own) == (360 if test == "own" else 300)
    assert data.weighted == (test == "weighted")
    sizes = np.array([[len(index) for index in rows] for rows in (data.train, data.validation)])
    assert abs(sizes[1] - 0.25 * sizes.sum(axis=0)).max() <= 0.5
    if test != "own":
        assert all(index is data.test[0] for index in data.test) and len(data.test[0]) == 60
        assert not set(data.test[0].tolist()) & set(own.tolist())


def test_images_are_normalised_by_the_constants_of_their_data_set(tmp_path):
    study = study_of(results=str(tmp_path), data="digits", heterogeneity=[{"partition": "homogeneous", "clients": 2}])
    partition = next(iter(prepared(study).partitions.values()))
    data = load(partition.data.files, partition.file, torch.device("cpu"))
    facts = read_metadata(partition.data.files["train"])
    pixels = data.images[data.train[0]].double()
    expected = (pixels / facts["scale"] - facts["mean"][0]) / facts["std"][0]
    assert_close(data.batch(data.train[0]).x.double(), expected, rtol=1e-5, atol=1e-6)
    assert abs(expected.mean()) < 0.1 and abs(expected.std() - 1) < 0.1, "digits have mean 0 and deviation 1 then"


@pytest.mark.parametrize("executor", [Loop, Stacked])
def test_a_global_model_goes_through_shared_test_images_once(executor, monkeypatch):
    train = [simulations.draw([0, 1, 2]), simulations.draw([2, 3], 40), simulations.draw([1, 8], 80)]
    official = torch.tensor(simulations.draw([0, 0, 1, 2, 2, 2, 3, 5], 400))
    tested = []
    measure = executor._measure

    def counted(self, task, measurement):
        tested.append(sum(len(task.images[client]) for client in task.ids))
        return measure(self, task, measurement)

    monkeypatch.setattr(executor, "_measure", counted)
    simulation = simulations.simulation(train, executor=executor(), rounds=1)
    actual = {}
    for name, lists in {"shared": [official] * 3, "own": [official.clone() for _ in train]}.items():
        tested.clear()
        actual[name] = scores(replace(simulation, data=replace(simulation.data, test=lists)), "accuracy_global")
        assert tested.count(8 if name == "shared" else 24) >= 2  # before and after the round
    assert actual["shared"] == pytest.approx(actual["own"])
