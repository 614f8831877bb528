"""Processes that are killed or asked to end: the next one goes on where they were, to the same numbers."""

import functools
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
import simulations
import torch
from methods.test_suite import assert_equal_states

from fedgrid.engine.progress import load_checkpoint, save_checkpoint
from fedgrid.engine.rounds import Saving, Terminated, federate
from fedgrid.files import read_metadata, write_table
from fedgrid.grid.study import resolved
from fedgrid.jobs import warm
from fedgrid.jobs.cell import TERMINATED, heed_sigterm
from fedgrid.jobs.cell import run as train
from fedgrid.jobs.prepare import build_data, build_partition
from fedgrid.methods.fedavg import FedAvg

KILLS, FARTHEST = 20, 40
"How often a cell is killed, and the most rounds that it may do between two kills."
LONG, SHORT = 1000, 300
ATTEMPT = ("costs", "versions", "hardware", "finished")
"Metadata that belong to the attempt, not to the cell."


def planned(folder, **training):
    """The only cell of a study in this folder, with its data set and its partition."""
    study = {
        "name": "one",
        "results": str(folder / "results"),
        "download": False,
        "data": "digits",
        "heterogeneity": [{"partition": "dirichlet", "beta": 0.5, "clients": 4}],
        "methods": ["fedcosr"],
        "model": {"name": "mlp", "hidden": 16, "features": 8},
        "training": {"batch_size": 512, "participation": 0.5} | training,
        "seeds": [0],
    }
    cell = resolved(study).cells[0]
    if not cell.split.file.exists():
        build_data(cell.split.data.job(None, None, "cpu", 1))
        build_partition(cell.split.job())
    return cell


class Place:
    """A folder in which one cell is trained by one process after the other."""

    def __init__(self, cell, folder):
        self.cell, self.out = cell, folder / "out.parquet"
        self.checkpoint, self.status = folder / "checkpoint", folder / "status.json"
        files = {"out": self.out, "checkpoint": self.checkpoint, "status": self.status}
        options = [part for name, file in files.items() for part in (f"--{name}", str(file))]
        module = ["fedgrid.jobs.cell", json.dumps(cell.job()), *options, "--checkpoint-every", "0.1"]
        self.command = [sys.executable, "-S", "-E", str(warm.CLIENT), *module]

    def start(self):
        """The process, in the warm worker where one listens, else by ``python -m``."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        # a background job of a shell is born deaf to Ctrl-C, and so are its children
        hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen(self.command, preexec_fn=hear, **pipes)

    def finish(self):
        """Trains to the end; what the process says."""
        run = self.start()
        said = run.communicate()[0]
        assert run.returncode == 0, said
        assert not self.checkpoint.exists() and not self.status.exists()
        return said

    def table(self):
        return pq.read_table(self.out).to_pydict()

    def facts(self):
        """The metadata that are the cell's own."""
        return {key: value for key, value in read_metadata(self.out).items() if key not in ATTEMPT}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def undisturbed(folder, worker):
    """A place where a cell of that many rounds has been trained by one process."""
    trained = {}

    def place(rounds):
        if rounds not in trained:
            (folder / str(rounds)).mkdir()
            trained[rounds] = Place(planned(folder, rounds=rounds), folder / str(rounds))
            trained[rounds].finish()
        return trained[rounds]

    return place


def rounds_in(text):
    """Numbers of the rounds that a log speaks of."""
    return [int(number) for number in re.findall(r"^round (\d+)/", text, re.M)]


def read_until(run, enough):
    """The log up to the first line with which `enough(text)` holds."""
    text = ""
    while not enough(text):
        line = run.stdout.readline()
        assert line, f"it ended too early: {text[-300:]}"
        text += line
    return text


def killed(place, moments, blindly):
    """What a process says that is killed some rounds after it went on, or just at any time after its start."""
    run, rounds = place.start(), moments.randint(1, FARTHEST)
    said = ""
    if not blindly:
        said = read_until(run, lambda text: len(rounds_in(text)) >= rounds and place.checkpoint.exists())
    time.sleep(moments.uniform(0, 0.6 if blindly else 0.02))
    run.kill()
    said += run.communicate()[0]  # to the end of the pipe: the process behind the client is gone too
    assert not place.out.exists()
    return said


def test_twenty_kills_at_random_moments(undisturbed, tmp_path):
    whole = undisturbed(LONG)
    place, moments, continued = Place(whole.cell, tmp_path), random.Random(5), []
    for attempt in range(KILLS):
        said = killed(place, moments, blindly=attempt % 5 == 4)
        assert place.checkpoint.exists()
        if attempt and said:
            continued.append(said)
    continued.append(place.finish())
    after = [int(re.match(r"continuing after round (\d+) from ", said)[1]) for said in continued]
    assert len(after) >= KILLS - KILLS // 5
    assert after == sorted(after) and 0 < after[0] < after[-1] < LONG
    assert place.table() == whole.table()
    assert place.facts() == whole.facts()


@pytest.mark.parametrize("kind", ["plain", "warm"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_process_that_is_asked_to_end_keeps_its_last_round(undisturbed, tmp_path, monkeypatch, number, kind):
    whole = undisturbed(SHORT)
    place = Place(whole.cell, tmp_path)
    if kind == "plain":
        monkeypatch.delenv(warm.VARIABLE)
    run = place.start()
    said = read_until(run, lambda text: len(rounds_in(text)) > SHORT // 3)
    run.send_signal(number)
    said += run.communicate()[0]
    assert run.returncode == TERMINATED == 75
    kept = int(re.search(r"^broken off: the checkpoint .* holds (\d+) rounds$", said, re.M)[1])
    assert 0 <= kept - rounds_in(said)[-1] <= 1  # the signal may fall between a round's end and its line
    progress, _ = load_checkpoint(place.checkpoint, whole.cell.key, torch.device("cpu"))
    assert progress.rounds == kept
    assert {entry[0] for entry in progress.record.rows} == set(range(kept + 1))
    monkeypatch.undo()
    assert place.finish().startswith(f"continuing after round {kept} from ")
    assert place.table() == whole.table()
    assert place.facts() == whole.facts()


class Ended(FedAvg):
    """Is asked to end in round 3, before its training or in its evaluation."""

    evaluating: bool = True

    def round(self, fed, s):
        if fed.round == 2 and not self.evaluating:
            raise Terminated
        return super().round(fed, s)

    def personal(self, fed, s):
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


def test_sigterm_comes_too_late_after_the_last_round(tmp_path, monkeypatch):
    def write(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        write_table(*arguments)

    monkeypatch.setattr("fedgrid.jobs.cell.write_table", write)
    cell, before = planned(tmp_path, rounds=1), signal.getsignal(signal.SIGTERM)
    try:
        heed_sigterm()
        train(cell.job(), tmp_path / "out.parquet", Saving(tmp_path / "checkpoint", cell.key, every=1e9))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert read_metadata(tmp_path / "out.parquet")["rounds"] == 1


def test_two_undisturbed_runs_are_equal_byte_for_byte(undisturbed, tmp_path):
    whole = undisturbed(SHORT)
    again = Place(whole.cell, tmp_path)
    again.finish()
    assert without_costs(again.out) == without_costs(whole.out)


def without_costs(file):
    """The bytes of a result without its cost and the date on which it was finished."""
    table, metadata = pq.read_table(file), read_metadata(file)
    del metadata["costs"], metadata["finished"]
    stream = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"fedgrid": json.dumps(metadata, sort_keys=True)}), stream)
    return stream.getvalue()


# Checkpoints that are none


def halfway(file, key):
    """Writes the checkpoint of a cell of four rounds after two of them."""
    simulation = simulations.ragged(rounds=4)

    def note(progress, remark):
        if progress.rounds == 2:
            save_checkpoint(file, key, progress)

    federate(simulations.method("fedcosr"), simulation, tell=note)


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
    found = federate(method, simulation, saving, lambda progress, remark: remarks.append(remark)).progress
    assert remarks == [sentence, "", "", "", ""]
    assert found.record.rows == federate(method, simulation).progress.record.rows


def test_a_checkpoint_that_is_whole_is_used(tmp_path):
    """The counterpart: what `halfway` writes is refused for its damage alone."""
    file = tmp_path / "checkpoint"
    halfway(file, "key")
    progress, sentence = load_checkpoint(file, "key", torch.device("cpu"))
    assert progress.rounds == 2
    assert sentence == f"continuing after round 2 from {file}"
