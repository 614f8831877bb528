"""Rounds that are broken off, and the checkpoints that a cell goes on from, or is kept from."""

import random
import re
from functools import cache

import pytest
import torch
from changed_states import rewritten
from trajectories import ending_after

from fedgrid.engine.rounds import federate
from fedgrid.engine.state.checkpoint import FORMAT, load_checkpoint, save_checkpoint
from fedgrid.engine.state.saving import Saving, Terminated
from fedgrid.methods.fedavg import FedAvg
from fedgrid.suite import simulations
from fedgrid.suite.simulations import assert_equal_states


class Ended(FedAvg):
    """Is asked to end in round 3, before its training or in its evaluation."""

    evaluating: bool = True

    def round(self, fed, s):
        if fed.round == 2 and not self.evaluating:
            raise Terminated
        return super().round(fed, s)

    def received(self, fed, s):
        if fed.round == 3 and self.evaluating:
            raise Terminated
        return fed.replicate(s.server.theta)


@pytest.mark.parametrize("evaluating", [True, False])
def test_a_round_that_is_broken_off_leaves_no_trace(tmp_path, evaluating):
    saving = Saving(tmp_path / "checkpoint", "key", every=1e9)
    with pytest.raises(Terminated):
        federate(Ended(evaluating=evaluating), simulations.ragged(rounds=4), saving)
    kept, _ = load_checkpoint(saving.file, "key", torch.device("cpu"))
    whole = federate(Ended(evaluating=not evaluating), simulations.ragged(rounds=2)).progress
    assert kept.rounds == 2
    assert kept.record.rows == whole.record.rows
    assert_equal_states(kept.state, whole.state)


# Checkpoints that are none


@cache
def reached(rounds):
    """The progress of a cell of four rounds after some of them."""
    actual = {}
    federate(
        simulations.method("fedcosr"), simulations.ragged(rounds=4), tell=lambda p, _: actual.update({p.rounds: p})
    )
    return actual[rounds]


def halfway(file, key):
    """Writes the checkpoint of a cell of four rounds after two of them."""
    save_checkpoint(file, key, reached(2))


def cut(share):
    def change(file):
        whole = file.read_bytes()
        file.write_bytes(whole[: int(share * len(whole))])

    return change


def hole(file):
    """Zeros in place of a block in the middle, as a lost disk write leaves them."""
    whole = file.read_bytes()
    middle = len(whole) // 2
    file.write_bytes(whole[:middle] + bytes(4096) + whole[middle + 4096 :])


def flip(file):
    """One bit in the middle is another."""
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 4
    file.write_bytes(whole)


DAMAGE = {
    "empty": cut(0),
    "its first byte": cut(1e-3),
    "a half": cut(0.5),
    "without its end": cut(0.999),
    "garbage": lambda file: file.write_bytes(random.Random(1).randbytes(5000)),
    "text": lambda file: file.write_text("nothing of the kind"),
    "a block of zeros": hole,
    "a flipped bit": flip,
    "parts missing": lambda file: torch.save({"key": "key"}, file),
    "another file of torch": lambda file: torch.save([1, 2], file),
    "code": lambda file: torch.save({"key": "key", "run": random.Random(1)}, file),
    "another key": lambda file: halfway(file, "other"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_checkpoint_that_is_none_is_named_and_not_used(tmp_path, damage):
    saving = Saving(tmp_path / "checkpoint", "key", every=1e9)
    halfway(saving.file, "key")
    DAMAGE[damage](saving.file)
    progress, sentence = load_checkpoint(saving.file, "key", torch.device("cpu"))
    assert progress is None
    assert re.fullmatch(rf"the checkpoint {re.escape(str(saving.file))} is [^.\n]*: starting over", sentence)
    remarks = []
    method, simulation = simulations.method("fedcosr"), simulations.ragged(rounds=4)
    actual = federate(method, simulation, saving, lambda progress, remark: remarks.append(remark)).progress
    assert remarks == [sentence, "", "", "", ""]
    assert actual.record.rows == reached(4).record.rows


@pytest.mark.parametrize("version", ["this", "1.0, without a number of its form"])
def test_a_checkpoint_that_is_whole_is_used(tmp_path, version):
    """The counterpart: what `halfway` writes is refused for its damage alone."""
    file = tmp_path / "checkpoint"
    halfway(file, "key")
    if version != "this":
        rewritten(file, lambda content: content.pop("format"))
    progress, sentence = load_checkpoint(file, "key", torch.device("cpu"))
    assert progress.rounds == 2 and sentence == f"continuing after round 2 from {file}"


@pytest.mark.parametrize(
    ("change", "version"),
    [
        (lambda content: content.update(format=FORMAT + 1, clock="another form"), "a later"),
        (lambda content: [content.pop(name) for name in ("format", "clock", "continued")], "an earlier"),
        (lambda content: content.pop("key"), "an earlier"),
    ],
)
def test_a_checkpoint_of_another_form_is_named_and_not_used(tmp_path, change, version):
    file = tmp_path / "checkpoint"
    halfway(file, "key")
    rewritten(file, change)
    progress, sentence = load_checkpoint(file, "key", torch.device("cpu"))
    assert progress is None
    assert sentence == f"the checkpoint {file} was written by {version} version of fedgrid: starting over"


def test_matrices_of_earlier_rounds_are_kept_or_made_again(tmp_path):
    method, simulation = simulations.method("pfedgraph"), simulations.ragged(rounds=4)
    whole = federate(method, simulation, matrices=True).progress.matrices
    assert [(done, name) for done, name, _ in whole][::2] == [(done, "graph") for done in (1, 2, 3, 4)]
    for asked, rounds in ((True, 2), (False, None)):
        saving = Saving(tmp_path / f"checkpoint {asked}", "key", every=1e9)
        with pytest.raises(Terminated):
            federate(method, simulation, saving, ending_after(2, Terminated), matrices=asked)
        kept, remark = load_checkpoint(saving.file, "key", torch.device("cpu"), matrices=True)
        assert (kept and kept.rounds) == rounds
        assert asked or remark.endswith("lacks the matrices of earlier rounds that are to be kept: starting over")
        resumed = federate(method, simulation, saving, matrices=True).progress.matrices
        assert all(a[:2] == b[:2] and torch.equal(a[2], b[2]) for a, b in zip(whole, resumed, strict=True))
