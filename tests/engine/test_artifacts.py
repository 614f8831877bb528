"""Tables beside a cell's results."""

import numpy as np
import pytest
import torch
import two_modalities
from trajectories import keep_two_models_together

from fedgrid.engine import artifacts, rounds
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.population import Population
from fedgrid.errors import UserError
from fedgrid.loading import names
from fedgrid.settings import ARTIFACTS
from fedgrid.suite import simulations


def kept(name, simulation, **settings):
    """The state after all rounds, and all tables that a study may keep of it."""
    method = simulations.method(name, **settings)
    progress = federate(method, simulation, matrices=True).progress
    return progress.state, tables_of(method, simulation, progress)


def tables_of(method, simulation, progress):
    """All tables by kind, as lists by column."""
    parts = artifacts.tables(ARTIFACTS, method, simulation, progress)
    tables = {kind: reader.read_all().to_pydict() for kind, reader in parts.items()}
    tables["predictions"] = sorted(zip(*tables["predictions"].values(), strict=True))  # each part has all points
    return tables


@pytest.fixture
def gathered(monkeypatch):
    """The numbers of clients whose rows are gathered together, as it happens."""
    sizes, gather = [], Population.gather
    monkeypatch.setattr(
        Population, "gather", lambda population, clients: (sizes.append(len(clients)), gather(population, clients))[1]
    )
    return sizes


@pytest.mark.parametrize("name", ["fedavg", "fedper", "fedrod"])
def test_representations_are_those_of_the_scored_model(name):
    simulation = simulations.ragged()
    state, tables = kept(name, simulation)
    actual, method, fed = tables["representations"], simulations.method(name), everyone(simulation, 3)
    assert actual["client"] == [i for i, index in enumerate(simulation.data.test) for _ in index]
    assert actual["label"] == torch.cat([simulation.data.labels[index] for index in simulation.data.test]).tolist()
    own = method.used(fed, state)
    own = fed.replicate(method.global_model(state)) if own is None else own
    images = simulation.data.batch(simulation.data.test[3])
    expected = simulation.model.features({key: t[3] for key, t in own.items()}, images.x)
    ours = np.array([v for client, v in zip(actual["client"], actual["representation"], strict=True) if client == 3])
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def predictions_of(name, simulation):
    """The table of predictions after all rounds, whose hits are the scores recorded last, by point and client."""
    method = simulations.method(name)
    outcome = federate(method, simulation)
    parts = artifacts.tables(["predictions"], method, simulation, outcome.progress, outcome.last)
    frame = outcome.progress.record.table().to_pandas()
    last = frame[frame["round"] == simulation.training.rounds]
    scores = last[last["metric"].astype(str).str.startswith("accuracy_")]
    recorded = {(m.removeprefix("accuracy_"), c): v for m, c, v in scores[["metric", "client", "value"]].values}
    table = parts["predictions"].read_all().to_pandas()
    hits = (table["label"] == table["predicted"]).groupby([table["point"].astype(str), table["client"]]).mean()
    assert hits.to_dict() == pytest.approx(recorded)
    return table


@pytest.mark.representatives
@pytest.mark.parametrize("name", names("methods"))
def test_predictions_are_those_that_were_scored(name):
    simulation = simulations.ragged(participation=0.6)
    table = predictions_of(name, simulation)
    assert table["probability"].between(0.1, 1).all()
    data = simulation.data
    for (_, client), part in table.groupby([table["point"].astype(str), table["client"]]):
        assert part["image"].tolist() == data.test[client].tolist()
        assert part["label"].tolist() == data.labels[data.test[client]].tolist()


@pytest.mark.parametrize("name", ["fedavg", "fedproto", "knn_per"])
def test_predictions_of_two_modalities(name):
    assert len(predictions_of(name, two_modalities.simulation()))


def test_a_client_without_test_images():
    _, tables = kept(
        "fedavg",
        simulations.simulation([simulations.draw([0, 1]), simulations.draw([3])], [[], simulations.draw([3, 4])]),
    )
    assert tables["representations"]["client"] == [1, 1]


@pytest.mark.parametrize(
    ("name", "matrices"),
    [("fedsac", {"graph", "similarity", "complementarity"}), ("pfedgraph", {"graph", "similarity"})],
)
def test_cooperation(name, matrices):
    state, tables = kept(name, simulations.ragged())
    actual = tables["cooperation"]
    assert set(actual["matrix"]) == matrices and sorted({*actual["round"]}) == [1, 2, 3]
    rows = list(zip(*(actual[column] for column in ("round", "matrix", "client", "other", "value")), strict=True))
    assert len(rows) == 3 * len(matrices) * 25
    for matrix in matrices:
        ours = {(i, j): value for round_, name, i, j, value in rows if (round_, name) == (3, matrix)}
        assert ours == {(i, j): float(state.server[matrix][i, j]) for i in range(5) for j in range(5)}
    weights = state.server.graph
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(5, dtype=torch.float64))


def test_clusters_of_clients():
    state, tables = kept("cfl", simulations.ragged(), t0=0, eps1=10.0, eps2=0.0)
    actual = tables["clusters"]
    assert actual["client"] == list(range(5)) and actual["cluster"] == state.server.cluster.tolist()
    assert len(set(actual["cluster"])) > 1 and actual["vector"] == [None] * 5


@pytest.mark.parametrize("name", ["fedccl", "fpl"])
def test_clusters_of_vectors(name):
    state, tables = kept(name, simulations.ragged())
    actual = tables["clusters"]
    assert len(actual["label"]) == int(state.server.held.sum()) and actual["client"] == [None] * len(actual["label"])
    for c in range(10):
        ours = [v for label, v in zip(actual["label"], actual["vector"], strict=True) if label == c]
        np.testing.assert_allclose(ours, state.server.vectors[c][state.server.held[c]], atol=1e-6)


def test_the_clusters_of_fedccl_lead_to_its_global_signals():
    state, tables = kept("fedccl", simulations.ragged())
    actual = {name: np.array(tables["clusters"][name]) for name in ("label", "cluster", "vector")}
    for c in range(10):
        own = actual["label"] == c
        groups = [actual["vector"][own & (actual["cluster"] == q)] for q in np.unique(actual["cluster"][own])]
        mean = np.mean([group.mean(axis=0) for group in groups], axis=0)
        np.testing.assert_allclose(mean, state.server.prototypes[c], atol=1e-5)


def test_a_method_without_clusters_has_an_empty_table():
    _, tables = kept("fedavg", simulations.ragged(rounds=1))
    assert tables["clusters"] == {"client": [], "label": [], "cluster": [], "vector": []}
    assert tables["cooperation"] == {"round": [], "matrix": [], "client": [], "other": [], "value": []}


def test_rows_of_clients_are_not_read_without_artifacts(gathered):
    method, simulation = simulations.method("ditto"), simulations.ragged()
    progress = federate(method, simulation).progress
    gathered.clear()
    assert artifacts.tables((), method, simulation, progress) == {}
    assert not gathered


@pytest.mark.parametrize("modalities", [False, True])
@pytest.mark.parametrize("name", ["ditto", "pfedgraph", "cfl"])
def test_wanted_artifacts_are_read_in_parts(gathered, monkeypatch, name, modalities):
    simulation = two_modalities.simulation(participation=0.5) if modalities else simulations.ragged(participation=0.4)
    method = simulations.method(name)
    whole = tables_of(method, simulation, federate(method, simulation, matrices=True).progress)
    keep_two_models_together(monkeypatch, simulation)
    monkeypatch.setattr(artifacts, "ROWS_TOGETHER", 2 * simulation.data.clients)
    gathered.clear()
    progress = federate(method, simulation, matrices=True).progress
    assert tables_of(method, simulation, progress) == whole
    assert max(gathered) == 2 < simulation.data.clients
    readers = artifacts.tables(["representations", "cooperation"], method, simulation, progress)
    assert len(list(readers["representations"])) == -(-simulation.data.clients // 2)
    assert max([len(part) for part in readers["cooperation"]], default=0) <= 2 * simulation.data.clients


def test_too_many_numbers_between_clients_are_refused_before_training(monkeypatch):
    simulation = simulations.ragged(rounds=5, eval_every=2)  # 2 matrices of 5 × 5 after rounds 2, 4 and 5
    monkeypatch.setattr(rounds, "MOST_NUMBERS", 150)
    method = simulations.method("pfedgraph")
    assert len(federate(method, simulation, matrices=True).progress.matrices) == 6
    monkeypatch.setattr(rounds, "MOST_NUMBERS", 149)
    monkeypatch.setattr(type(method), "round", None)
    with pytest.raises(UserError) as error:
        federate(method, simulation, matrices=True)
    message = str(error.value)
    assert message.startswith("artifacts: 'cooperation' would store 150 numbers or more")
    assert "clients: 5; evaluated rounds: 3" in message
    assert "at most 149 are kept" in message and "training.eval_every" in message


def test_too_many_for_a_single_matrix_are_refused_before_the_setup(monkeypatch):
    simulation = simulations.ragged(rounds=5, eval_every=2)
    monkeypatch.setattr(rounds, "MOST_NUMBERS", 74)
    method = simulations.method("fedsac")
    monkeypatch.setattr(type(method), "setup", None)
    with pytest.raises(UserError, match="would store 75 numbers or more"):
        federate(method, simulation, matrices=True)
    plain = simulations.method("fedavg")
    assert federate(plain, simulation, matrices=True).progress.matrices == []
