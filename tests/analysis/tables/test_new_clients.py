"""Tables of clients that join after training, and of what a target accuracy costs, against numbers by hand."""

from functools import partial

import numpy as np
import pytest
from toys import Study, make_table

from fedgrid.analysis.prose import captions
from fedgrid.analysis.scores.results import load
from fedgrid.analysis.scores.spent import cumulative_costs
from fedgrid.analysis.scores.summary import cell_scores, summary
from fedgrid.errors import UserError

new_clients = partial(make_table, "new_clients")
rounds = partial(make_table, "rounds")

PROTOCOL = {"rounds": 3, "local_epochs": 2, "local_steps": None, "batch_size": 16, "optimizer": "sgd", "lr": 0.1}
SIZES = {"train_samples": {0: [10, 30]}}
MIB = {"bytes_up": 2**20, "bytes_down": 3 * 2**20}


def traffic(participants):
    """Metrics of rounds in which these clients take part, by round: a MiB up and three down each."""
    values = {round_: [1 if client in some else None for client in (0, 1)] for round_, some in participants.items()}
    return {
        name: {round_: [v and v * size for v in row] for round_, row in values.items()} for name, size in MIB.items()
    }


@pytest.fixture
def study(tmp_path):
    """Ditto (1 + E passes) and FedAvg, of whom the second never reaches 80 %."""
    study = Study(tmp_path, seeds=[0], protocol=PROTOCOL)
    study.method("ditto")
    study.method("fedavg")
    return study


def test_members_and_new_clients_stand_beside_each_other(tmp_path):
    study = Study(tmp_path, protocol=PROTOCOL | {"new_clients": 0.5}, score="received")
    study.method("fedavg", title="FedAvg")
    for seed in range(3):
        joined = {"new_accuracy_received": {2: [None, 0.4]}, "new_accuracy_trained": {2: [None, 0.7]}}
        study.cell("fedavg", "dir", seed, {2: [0.9, None]}, also=joined | {"train_samples": {0: [10, 30]}})
    results = load(study.results())
    tidy, grid = new_clients(results, {})
    means = tidy.groupby("clients").accuracy.first().to_dict()
    assert means == pytest.approx({"members": 0.9, "received": 0.4, "trained": 0.7})
    assert [entry.text.split()[0] for entry in grid.rows[0][1]] == ["90.00", "40.00", "70.00"]
    assert "as received, after local training" in grid.caption
    assert "50 % of the clients take no part in training" in grid.caption
    assert "have no score" not in " ".join(captions.remarks(results, cell_scores(results), summary(results)))


def test_without_new_clients_there_is_no_such_table(study):
    study.cell("ditto", "dir", 0, {1: [0.5, 0.5]})
    with pytest.raises(UserError, match=r"set training\.new_clients"):
        new_clients(load(study.results()), {})


@pytest.mark.parametrize(
    ("settings", "sentences"),
    [
        ({}, ""),
        (
            {"malicious": 0.2, "attack": "labels", "attack_scale": None},
            "20 % of the clients, rounded up and the same ones in every round, are malicious: they train on flipped "
            "labels. They take no part in these numbers.",
        ),
        (
            {"malicious": 0.1, "attack": "scale", "attack_scale": None, "aggregation": "median"},
            "10 % of the clients, rounded up and the same ones in every round, are malicious: they upload their "
            "update times 10. They take no part in these numbers. The server aggregates models by the coordinate-wise "
            "median, in which clients count equally.",
        ),
    ],
    ids=["none", "labels", "scale"],
)
def test_malicious_clients_and_rules_are_named(settings, sentences):
    assert " ".join(captions.malicious(settings)) == sentences


def test_malicious_clients_do_not_lack_a_score(study):
    metrics = {name: {0: [9, 9, 9]} for name in ("train_samples", "test_samples")}
    study.cell("ditto", "dir", 0, {1: [0.5, 0.5]}, also=metrics)
    assert len(captions.unscored(load(study.results()))) == 1
    study.cell("ditto", "dir", 0, {1: [0.5, 0.5]}, also=metrics | {"malicious": {0: [None, None, 1.0]}})
    assert captions.unscored(load(study.results())) == []


def test_participants_that_fail_are_named(study):
    study.study["protocol"] = PROTOCOL | {
        "dropout": 0.25,
        "dropout_at": "start",
        "stragglers": 0.5,
        "straggler_work": 0.1,
    }
    study.cell("ditto", "dir", 0, {1: [0.5, 0.5]})
    results = load(study.results())
    text = " ".join(captions.remarks(results, cell_scores(results), summary(results)))
    assert "In each round a participant does not start with a chance of 25 %." in text
    assert "With a chance of 50 % a participant takes only 10 % of its local steps in a round." in text


def test_bytes_and_passes_until_a_target(study):
    metrics = SIZES | traffic({1: [0], 2: [0, 1], 3: [1]})
    study.cell("ditto", "dir", 0, {1: [0.5, 0.5], 2: [0.7, 0.9], 3: [0.9, 0.9]}, also=metrics, traffic=False)
    study.cell("fedavg", "dir", 0, {1: [0.5, 0.5], 3: [0.7, 0.7]}, also=metrics, traffic=False)
    results = load(study.results())
    table, grid = rounds(results, {"target": 80, "costs": True})
    # 3 passes over 10 of 40 images, then over all of them
    assert table[["rounds", "mib", "passes"]].iloc[0].tolist() == [2, 12, 3 * 0.25 + 3]
    assert np.isinf(table[["rounds", "mib", "passes"]].iloc[1]).all()
    assert [[entry.text for entry in entries] for _, entries in grid.rows] == [["2", "12.0", "3.8"], [">3", "–", "–"]]


def test_a_straggler_makes_a_part_of_its_passes(study):
    metrics = SIZES | traffic({1: [0, 1]}) | {"work": {1: [0.5, 1.0]}}
    study.cell("fedavg", "dir", 0, {1: [0.5, 0.5]}, also=metrics, traffic=False)
    (row,) = cumulative_costs(load(study.results())).itertuples()
    assert row.passes == pytest.approx(2 * (0.25 * 0.5 + 0.75))


def test_a_number_of_steps_is_as_many_passes_as_it_has_images(study):
    study.study["protocol"] = PROTOCOL | {"local_steps": 5}
    study.cell("fedavg", "dir", 0, {1: [0.5, 0.5]}, also=SIZES | traffic({1: [0, 1]}), traffic=False)
    (row,) = cumulative_costs(load(study.results())).itertuples()
    assert row.passes == pytest.approx((5 * 10 + 5 * 16) / 40)  # the smaller client's batches hold its 10 images
