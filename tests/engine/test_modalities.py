"""Clients of two modalities: a federation for each of them by itself, and what both executors make of it."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
import two_modalities
from trajectories import brief, ending_after
from two_modalities import TEXTUAL, VISUAL, alone, values

from fedgrid.data.common import store
from fedgrid.data.common.images import MODALITIES, PARTS, Images
from fedgrid.engine import artifacts
from fedgrid.engine.federation.modalities import parts
from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.local import client_data
from fedgrid.engine.local.augmentation import captioned
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.checkpoint import load_checkpoint
from fedgrid.engine.state.saving import Saving
from fedgrid.files import write_table
from fedgrid.loading import load
from fedgrid.suite import simulations
from fedgrid.suite.simulations import assert_close_states, assert_equal_states
from fedgrid.tree import Tree, rows

UNEVEN = ((9, 14, 0), (11, 1, 6))
"A client without images and one with a single text."


def computed(name, simulation, **settings):
    outcome = simulations.run(name, simulation, **simulations.brief(name) | settings)
    assert outcome.status == "ok"
    return outcome.progress


def of_whole(progress, clients):
    """What was recorded of a modality by itself, under its clients' numbers in the whole."""
    return {(round_, metric, clients[client]): value for (round_, metric, client), value in values(progress).items()}


@pytest.mark.representatives
@pytest.mark.parametrize("given", [{}, {"shared_tests": True, "weighted": True, "participation": 0.5}], ids=str)
def test_every_method_under_both_executors(method_name, given):
    progress = [
        computed(method_name, two_modalities.simulation(UNEVEN, executor=executor, **given))
        for executor in (None, Stacked())
    ]
    one, other = (values(p) for p in progress)
    assert one.keys() == other.keys() and all(math.isfinite(value) for value in one.values())
    assert_close_states(progress[1].state, progress[0].state)
    tested = {client for round_, metric, client in one if round_ == 2 and metric == "accuracy_received"}
    assert tested == {0, 1, 3, 4, 5}


@pytest.mark.representatives
def test_a_run_that_is_killed_is_the_undisturbed_one(method_name, tmp_path):
    saving, simulation = Saving(tmp_path / "cell", "key", every=0.0), two_modalities.simulation(participation=0.5)
    simulation = replace(simulation, training=replace(simulation.training, rounds=3))
    whole = computed(method_name, simulation)

    method = brief(method_name)
    with pytest.raises(simulations.Killed):
        federate(method, simulation, saving, ending_after(2))
    kept, _ = load_checkpoint(saving.file, "key", torch.device("cpu"))
    assert kept.rounds == 1
    resumed = federate(method, simulation, saving).progress
    assert values(resumed) == values(whole)
    assert_equal_states(resumed.state, whole.state)


@pytest.mark.parametrize("modality", [VISUAL, TEXTUAL])
@pytest.mark.parametrize("name", ["fedavg", "local", "pfedgraph", "scaffold", "fedcosr"])
def test_a_single_modality_is_the_federation_of_its_clients(name, modality):
    """Bit for bit, in what is recorded, in the state and in the matrices."""
    whole = two_modalities.simulation(((9, 14), (11, 6, 8)), shared_tests=True)
    own, number = alone(whole, modality), MODALITIES[modality]
    together, theirs = (federate(simulations.method(name), of, matrices=True).progress for of in (whole, own))
    clients = whole.data.only(modality).numbers
    actual = {key: value for key, value in values(together).items() if key[2] in clients}
    assert actual == of_whole(theirs, clients)
    ids = torch.tensor(clients)
    kept = together.state
    assert_equal_states(type(kept)(kept.server[number], rows(kept.clients[number], ids)), theirs.state)
    for (_, _, ours), (_, _, expected) in zip(together.matrices, theirs.matrices, strict=True):
        assert torch.equal(ours[ids][:, ids], expected)
        assert not ours[ids][:, [i for i in range(5) if i not in clients]].any()


def test_a_modality_without_participants_does_not_change():
    simulation = two_modalities.simulation(((9, 14), (11,)), participation=0.34, rounds=1)
    assert participants(simulation, 0).tolist() in ([0], [1], [2])
    (here,) = (simulation.data.modality[i] for i in participants(simulation, 0).tolist())
    state = computed("fedavg", simulation).state
    start = simulation.model.initial(0)
    for number, name in enumerate(MODALITIES):
        moved = any(not torch.equal(t, start[key].double()) for key, t in state.server[name].theta.items())
        assert moved == (number == here)


def test_participants_are_drawn_from_all_clients():
    """So that in some round a modality has none, and both have some in others."""
    simulation = two_modalities.simulation(((6, 6), (6, 6)), participation=0.5)
    drawn = [{simulation.data.modality[i] for i in participants(simulation, t).tolist()} for t in range(20)]
    assert {0, 1} in drawn and ({0} in drawn or {1} in drawn)


def test_quantities_traffic_and_phases_are_put_back():
    simulation = two_modalities.simulation(((9, 14), (11, 6)))
    progress = computed("fedcosr", simulation)
    actual = values(progress)
    assert {client for round_, metric, client in actual if (round_, metric) == (2, "trust")} == {0, 1, 2, 3}
    down = [actual[2, "bytes_down", client] for client in range(4)]
    assert down[0] == down[1] != down[2] == down[3]
    assert computed("pfedgraph", simulation).phases.keys() == {"similarity", "optimisation", "mixture"}


@pytest.mark.parametrize("name", ["local", "fedavg", "pfedgraph", "fedproto", "cfl"])
def test_artifacts_of_both_modalities(name):
    simulation = two_modalities.simulation(((9, 14), (11, 6)))
    method = simulations.method(name)
    progress = federate(method, simulation, matrices=True).progress
    parts = artifacts.tables(("representations", "cooperation", "clusters"), method, simulation, progress)
    tables = {kind: reader.read_all() for kind, reader in parts.items()}
    actual = tables["representations"].to_pydict()
    assert actual["client"] == [i for i in range(4) for _ in range(5)]
    labels = torch.cat([simulation.data.labels[index] for index in simulation.data.test])
    assert actual["label"] == labels.tolist()
    if name == "cfl":
        clusters = tables["clusters"].to_pydict()
        assert (clusters["client"], clusters["cluster"]) == ([0, 1, 2, 3], [0, 0, 1, 1])
    assert len(tables["cooperation"]) == (2 * 2 * 16 if name == "pfedgraph" else 0)


def test_a_diverging_client_has_its_number_in_the_whole_federation():
    simulation = two_modalities.simulation(((9, 14), (11, 6)), lr=1e200)
    nothing = [index[:0] for index in simulation.data.train[:2]]
    simulation = replace(simulation, data=replace(simulation.data, train=nothing + simulation.data.train[2:]))
    outcome = federate(simulations.method("fedavg"), simulation)
    assert outcome.status == "diverged" and "client 2 " in outcome.reason


def test_captions_are_drawn_in_training_alone():
    """Each with the same chance, and the same ones whoever computes; elsewhere the first is read."""
    texts = torch.arange(3000)[:, None, None].expand(-1, 2, 4) * 2 + torch.tensor([0, 1])[None, :, None]
    batch = Batch(texts, torch.zeros(3000, dtype=torch.long))
    at = LossContext(None, Tree(), Tree(), 7)
    first, again, second = (captioned(batch, at, number).x for number in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, second)
    assert first.shape == (3000, 4) and torch.equal(first // 2, batch.x[:, 0] // 2)
    assert abs((first[:, 0] % 2).double().mean() - 0.5) < 0.05
    simulation = alone(two_modalities.simulation(), TEXTUAL)
    fed, seen = everyone(simulation, 0), set()
    fed.measure(fed.replicate(fed.initial()), lambda theta, b, at: seen.add(tuple(b.x.shape[1:])) or {"n": b.y.sum()})
    assert seen == {(2, 7)}
    x = simulation.data.batch(simulation.data.test[0], "textual").x
    assert torch.equal(simulation.model(fed.initial(), x), simulation.model(fed.initial(), x[:, 0]))


def test_augmentation_is_for_images_alone():
    plain, moved = (
        computed("local", two_modalities.simulation(augmentation=kind)).state for kind in ("none", "crop_flip")
    )
    assert_equal_states(*(type(s)({}, s.clients.textual) for s in (plain, moved)))
    assert not torch.equal(*(s.clients.visual.theta["head.weight"] for s in (plain, moved)))


def test_a_test_set_that_all_share_is_weighted_for_each_modality():
    """Texts have other numbers of a class than pictures."""
    simulation = two_modalities.simulation(((9, 14), (11, 6)), shared_tests=True, weighted=True)
    actual = values(computed("fedavg", simulation))
    for number in (VISUAL, TEXTUAL):
        own = of_whole(computed("fedavg", alone(simulation, number)), simulation.data.only(number).numbers)
        assert all(actual[key] == value for key, value in own.items())


def test_progress_speaks_of_all_clients():
    progress = computed("fedavg", two_modalities.simulation(((9, 14), (11, 6))))
    last = [value for (round_, metric, _), value in values(progress).items() if (round_, metric) == (2, "loss_global")]
    assert len(last) == 4 and progress.record.latest("loss_global") == pytest.approx(sum(last) / 4, rel=1e-12)


def test_parts_of_some_clients():
    simulation = two_modalities.simulation(((9, 14), (11, 6)))
    fed = everyone(simulation, 0).subset(torch.tensor([False, True, True, True]))
    actual = {name: (where.tolist(), part.ids.tolist()) for name, where, part in parts(fed)}
    assert actual == {"visual": ([0], [1]), "textual": ([1, 2], [0, 1])}


# Files of a data set with modalities


def test_a_partition_is_loaded_with_pictures_before_texts(tmp_path):
    """Files mix samples of both; some are not used, and the first text in use is a test sample."""
    draw, kinds = np.random.default_rng(5), np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 0])
    labels, pixels = draw.integers(0, 4, 10), draw.integers(0, 255, (5, 2, 2, 3)).astype(np.uint8)
    tokens = draw.integers(0, 9, (5, 2, 3)).astype(np.uint16)
    facts = {"checksum": "c", "shape": [2, 2, 3], "mean": [0.5], "std": [0.25], "scale": 255, "classes": ["a"] * 4}
    facts |= {"modalities": list(MODALITIES), "vocabulary": ["w"] * 7, "captions": [2, 3], "dtype": "uint8"}
    files = {part: tmp_path / f"{part}.parquet" for part in PARTS}
    cut = int((kinds[:6] == 0).sum())  # six samples are the training part
    halves = (slice(0, 6), pixels[:cut], tokens[: 6 - cut]), (slice(6, 10), pixels[cut:], tokens[6 - cut :])
    halved = [Images(images, labels[rows], modality=kinds[rows], tokens=texts) for rows, images, texts in halves]
    store.write(files, dict(zip(PARTS, halved, strict=True)), facts | {"images": {"train": 6, "test": 4}})
    rows_ = [(0, "train", 3), (0, "train", 0), (2, "train", 7), (2, "train", 8), (-1, "test", 9), (-1, "test", 1)]
    client, split, index = map(list, zip(*rows_, strict=True))
    table = pa.table({"client": pa.array(client, pa.int32()), "split": split, "index": pa.array(index, pa.int64())})
    head = {"data_checksum": "c", "clients": 4, "test": "official"}
    write_table(tmp_path / "p.parquet", table, head)
    data = client_data.load(files, tmp_path / "p.parquet", torch.device("cpu"))
    assert (data.modality, data.modalities, data.vocabulary) == ((0, 0, 1, 1), MODALITIES, 9)
    assert (len(data.images), len(data.tokens)) == (3, 3)
    assert data.test[0] is data.test[1] and data.test[2] is data.test[3]
    for lists, expected in ((data.train, {0: [3, 0], 2: [7, 8]}), (data.test, {1: [9], 3: [1]})):
        for client, samples in expected.items():
            batch = data.batch(lists[client], data.modalities[data.modality[client]])
            assert batch.y.tolist() == labels[samples].tolist()
            places = [int((kinds[:sample] == kinds[sample]).sum()) for sample in samples]
            if client < 2:
                shown = (torch.from_numpy(pixels[places]).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25
                torch.testing.assert_close(batch.x, shown)
            else:
                assert batch.x.tolist() == tokens[places].tolist()


# The network


def test_a_network_of_one_modality_has_the_same_names_and_draws():
    whole = load("models", "image_text")().network((32, 32, 3), 10, 50)
    theta = whole.initial(3)
    assert {".".join(name.split(".")[:2]) for name in theta} == {
        "extractor.visual",
        "extractor.textual",
        "head.weight",
        "head.bias",
    }
    for name in MODALITIES:
        own, actual = whole.only(name), whole.only(name).initial(3)
        assert all(torch.equal(t, theta[key]) for key, t in actual.items())
        assert own.part_of_modality(theta).keys() == actual.keys() == own.parameters(theta).keys()
        x = torch.rand(2, 3, 32, 32) if name == "visual" else torch.randint(0, 50, (2, 9))
        assert own.features(theta, x).shape == (2, 256)
        assert torch.equal(own(theta, x), own(actual, x))
    nested = whole.only("visual").part_of_modality({"theta": theta, "decoder.textual.x": theta["head.bias"]})
    assert nested.keys() == {"theta"} and "extractor.textual.last.bias" not in nested.theta


def test_words_behind_the_end_of_a_text_say_nothing():
    network = load("models", "image_text")().network((16, 16, 3), 10, 50).only("textual")
    theta = network.initial(0)
    short = torch.tensor([[5, 7, 0, 0, 0, 0, 0]])
    other = theta | {"extractor.textual.embedding.weight": theta["extractor.textual.embedding.weight"].clone()}
    other["extractor.textual.embedding.weight"][0] += 1
    assert torch.equal(network(theta, short), network(other, short))
    assert network(theta, torch.tensor([[5]])).shape == (1, 10)


def test_operations_are_those_of_the_dearer_modality():
    network = load("models", "image_text")().network((16, 16, 3), 10, 50)
    each = [network.only(name).flops((16, 16, 3), 4) for name in MODALITIES]
    assert network.flops((16, 16, 3), 4) == max(each) and min(each) > 0


def test_dropout_is_of_the_head_that_all_share():
    network = load("models", "image_text")(dropout=0.5).network((16, 16, 3), 10, 50).only("textual")
    theta, x = network.initial(0), torch.randint(2, 50, (4, 6))
    assert not torch.equal(network.learning(1)(theta, x), network.learning(2)(theta, x))
    assert torch.equal(network.learning(1).evaluating()(theta, x), network(theta, x))


@pytest.mark.parametrize("name", ["fedavg", "fedsac", "fediot"])
def test_texts_in_bfloat16(name):
    simulation = two_modalities.simulation(dtype="bfloat16-mixed", executor=Stacked())
    actual = values(computed(name, replace(simulation, model=simulation.model.in_bfloat16())))
    assert all(math.isfinite(value) for value in actual.values())
    textual = simulation.model.in_bfloat16().only("textual")
    assert textual.features(textual.initial(0), torch.ones(2, 5, dtype=torch.long)).dtype == torch.float32
