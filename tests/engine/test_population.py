"""Clients' rows between rounds: only participants' are touched, in memory and in a file, which survives a kill."""

import gc
import os
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from trajectories import brief, ending_after, recorded

from fedgrid.engine.federation import participation
from fedgrid.engine.rounds import federate
from fedgrid.engine.state import population, slots
from fedgrid.engine.state.checkpoint import load_checkpoint, remove_checkpoint, rows_of
from fedgrid.engine.state.population import Population
from fedgrid.engine.state.saving import Saving
from fedgrid.engine.state.slots import InFile, InMemory
from fedgrid.engine.state.state import State
from fedgrid.errors import UserError
from fedgrid.suite import simulations
from fedgrid.suite.simulations import assert_equal_states
from fedgrid.tree import as_tree

STATEFUL = ["ditto", "fedala", "fedcosr", "scaffold"]
"Methods whose clients keep models, weights, truth values and numbers."


@pytest.fixture
def filed(monkeypatch):
    """No row has room in memory, and few are moved at a time; methods whose clients keep nothing need no file."""
    monkeypatch.setattr(population, "IN_MEMORY", 0)
    monkeypatch.setattr(slots, "AT_ONCE", 3000)


def world(**training):
    return simulations.ragged(**{"rounds": 5, "participation": 0.4, "batch_size": 8} | training)


def kept(folder, every=0.0):
    return Saving(folder / "checkpoint.pt", "key", every)


def killed_after(method, where, saving, rounds):
    """Ends in the middle of the work after so many rounds, of which the last is not in the checkpoint."""
    with pytest.raises(simulations.Killed):
        federate(method, where, saving, ending_after(rounds))
    gc.collect()  # the lock goes with the process, for which the exception's frames stand here


def assert_same(ours, theirs):
    assert ours.record.rows == theirs.record.rows
    assert_equal_states(ours.state, theirs.state)


# In a file


@pytest.mark.representatives
def test_every_method_has_the_same_numbers_with_rows_in_a_file(filed, tmp_path, method_name):
    method, where = brief(method_name), world(rounds=3)
    ours = federate(method, where, kept(tmp_path, every=1e9)).progress
    assert_same(ours, federate(method, where).progress)


@pytest.mark.full
@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("participation", [0.4, 1.0])
def test_a_cell_that_is_killed_again_and_again_ends_alike(filed, tmp_path, name, participation):
    method, where, saving = brief(name), world(participation=participation), kept(tmp_path)
    for rounds in (2, 3, 5):
        killed_after(method, where, saving, rounds)
        assert rows_of(saving.file).stat().st_size > 0
        actual, _ = load_checkpoint(saving.file, "key", torch.device("cpu"))
        assert actual.rounds == rounds - 1
        del actual
    assert_same(federate(method, where, saving).progress, federate(method, where).progress)


def test_a_round_touches_the_rows_of_its_participants_alone(filed, tmp_path, monkeypatch):
    read, written, put, preadv = [], [], InFile._put, os.preadv
    monkeypatch.setattr(InFile, "_put", lambda own, slot, content: (written.append(slot), put(own, slot, content)))
    monkeypatch.setattr(os, "preadv", lambda *given: (read.append(given), preadv(*given))[1])
    ends = []

    def tell(progress, remark):
        ends.append((len(read), len(written), set(progress.population.slot_of.tolist())))

    federate(brief("ditto"), world(eval_every=5), kept(tmp_path), tell)
    rounds = list(pairwise(ends[1:-1]))  # the last round's models of all clients are scored
    assert len(rounds) == 3
    for (read_before, written_before, named), (read_after, written_after, _) in rounds:
        assert 1 <= read_after - read_before <= 2  # of five clients take part, who may share a row
        assert written_after - written_before == 2
        assert not named & set(written[written_before:written_after])


def test_the_file_holds_no_more_than_it_must(filed, tmp_path):
    sizes, saving = [], kept(tmp_path)
    federate(brief("ditto"), world(rounds=12), saving, lambda *_: sizes.append(rows_of(saving.file).stat().st_size))
    row = sizes[0]  # that all clients share at first
    assert max(sizes) <= (5 + 2 * 2 + 1) * row  # a row for each client, and those of a checkpoint and of a round


# What can go wrong


def trained(folder):
    saving = kept(folder)
    killed_after(brief("ditto"), world(), saving, 3)
    return saving


def spoil(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    file.write_bytes(content)


@pytest.mark.parametrize("harm", [spoil, lambda file: os.truncate(file, 10), lambda file: file.unlink()])
def test_what_a_checkpoint_names_and_the_file_lost_is_noticed(filed, tmp_path, harm):
    saving, remarks = trained(tmp_path), []
    harm(rows_of(saving.file))
    ours = federate(brief("ditto"), world(), saving, lambda _, remark: remarks.append(remark)).progress
    assert "has lost states of clients" in remarks[0]
    assert "starting over" in remarks[0]
    assert_same(ours, federate(brief("ditto"), world()).progress)


def test_two_processes_cannot_train_the_same_cell(filed, tmp_path):
    saving = trained(tmp_path)
    actual, _ = load_checkpoint(saving.file, "key", torch.device("cpu"))
    with pytest.raises(UserError, match="in use by another process"):
        federate(brief("ditto"), world(), saving)
    assert actual.rounds == 2


def full(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("pwrite", [full, lambda *_: 1])
def test_a_full_disk_is_reported_in_one_sentence(filed, tmp_path, monkeypatch, pwrite):
    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(UserError, match=r"checkpoint\.pt\.rows: cannot be written"):
        federate(brief("ditto"), world(), kept(tmp_path))


def test_nothing_is_left_of_a_checkpoint_that_is_removed(filed, tmp_path):
    saving = trained(tmp_path)
    remove_checkpoint(saving.file)
    assert list(tmp_path.iterdir()) == []
    remove_checkpoint(saving.file)


# In memory


@pytest.mark.parametrize("name", STATEFUL)
def test_rows_in_memory_are_in_the_checkpoint(tmp_path, name):
    method, where, saving = brief(name), world(), kept(tmp_path)
    killed_after(method, where, saving, 3)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]
    assert_same(federate(method, where, saving).progress, federate(method, where).progress)


def clients(rows):
    return State({"mean": torch.zeros(1)}, {"model": {"w": rows}, "old": torch.zeros(len(rows), dtype=torch.bool)})


def test_clients_share_a_row_until_they_take_part():
    start = clients(torch.full((1000, 3), torch.nan))
    own = Population.of(start, 1000, None)
    assert len(own.slots) == 1
    assert own.everyone().clients.model.w.untyped_storage().nbytes() == 3 * 4
    some = np.array([3, 7, 999])
    after = own.gather(some).update(clients={"model": {"w": torch.ones(3, 3)}})
    own = own.scatter(some, own.gather(some), after)
    assert len(own.slots) == 4
    actual = own.everyone().clients.model.w
    assert actual[some].eq(1).all()
    assert actual.isnan().all(dim=1).sum() == 997


def test_clients_that_differ_from_the_start_have_rows_of_their_own():
    start = clients(torch.arange(12.0).reshape(4, 3))
    assert_equal_states(Population.of(start, 4, None).everyone(), start)


def test_a_round_leaves_the_state_before_it_as_it_was():
    own = Population.of(clients(torch.arange(12.0).reshape(4, 3)), 4, None)
    for number in range(5):
        some, before = np.array([number % 3, 3]), own.everyone().clients.model.w.clone()
        after = own.gather(some).update(clients={"model": {"w": torch.full((2, 3), float(number))}})
        new = own.scatter(some, own.gather(some), after)
        assert torch.equal(own.everyone().clients.model.w, before)
        own = new
    assert len(own.slots) == 8  # doubled once


def test_entries_stay_the_same():
    own = Population.of(clients(torch.zeros(2, 3)), 2, None)
    before = own.everyone()
    with pytest.raises(ValueError, match="add or drop"):
        own.scatter(np.arange(2), before, before.update(clients={"new": torch.zeros(2)}))


def test_consecutive_rows_are_views_and_saved_without_the_others():
    own = InMemory(as_tree({"w": torch.arange(12.0).reshape(6, 2)}))
    some = own.read(np.array([1, 2, 3])).w
    assert some.data_ptr() == own.stack.w[1].data_ptr() and some.tolist() == [[2, 3], [4, 5], [6, 7]]
    assert own.read(np.array([3, 1])).w.tolist() == [[6, 7], [2, 3]]
    saved = own.saved(np.array([1, 2, 3]))["rows"]["w"]
    assert torch.equal(saved, some) and saved.untyped_storage().nbytes() == 3 * 2 * 4


def test_free_slots_are_neither_used_nor_reserved():
    stack = InMemory(as_tree({"w": torch.zeros(6, 1)}))
    stack.reserved = np.array([4])
    assert stack.free(np.array([0, 2, 2]), 4).tolist() == [1, 3, 5, 6]


# Whose models are scored


@pytest.mark.parametrize("name", ["fedavg", "fedavg_ft", "ditto", "fedcosr", "fedala", "knn_per"])
def test_models_scored_in_parts_have_the_same_scores(monkeypatch, name):
    whole = federate(brief(name), world()).progress
    monkeypatch.setitem(participation.MODELS_TOGETHER, "cpu", 12000)  # bytes of two models
    assert_same(federate(brief(name), world()).progress, whole)


def test_a_model_and_images_that_all_share_are_scored_once(monkeypatch):
    where, calls = world(rounds=1), []
    shared = where.data.test[0]
    where = replace(where, data=replace(where.data, test=[shared] * 5))
    monkeypatch.setitem(participation.MODELS_TOGETHER, "cpu", 1)
    measure = where.executor.measure
    monkeypatch.setattr(where.executor, "measure", lambda *given: (calls.append(given), measure(*given))[1])
    federate(brief("fedavg"), where)
    once = 2  # at the start and at the end
    participants_in_parts = 2
    assert len(calls) == once + participants_in_parts


def test_a_sample_is_scored_between_evaluations():
    every = recorded(federate(brief("ditto"), world()).progress)
    rows = federate(brief("ditto"), world(eval_every=3, eval_sample=2)).progress.record.rows
    sampled = [row for row in rows if row[1].startswith("sample_")]
    assert {round_ for round_, *_ in sampled} == {1, 2, 4}
    assert {round_ for round_, metric, *_ in rows if metric == "accuracy_received"} == {0, 3, 5}
    (numbers,) = {tuple(given) for _, metric, given, _ in sampled if metric == "sample_loss_received"}
    assert len(numbers) == 2
    for round_, metric, given, values in sampled:
        assert dict(zip(given, values, strict=True)).items() <= every[round_, metric.removeprefix("sample_")].items()


def test_clients_are_scored_between_evaluations_only_on_request():
    rows = federate(brief("ditto"), world(eval_every=3)).progress.record.rows
    assert {round_ for round_, metric, *_ in rows if "accuracy" in metric} == {0, 3, 5}
