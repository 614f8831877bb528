"""Processes that are killed or asked to end: the next one goes on where they were, to the same numbers."""

import io
import json
import random
import re
import signal
import subprocess
import time

import pyarrow.parquet as pq
import pytest
import torch
from processes import PIPES
from studies import cell_command, prepared, study_of

from fedgrid.api.training import ensure_results
from fedgrid.engine.state.checkpoint import load_checkpoint
from fedgrid.files import read_metadata
from fedgrid.jobs import warm
from fedgrid.jobs.signals import TERMINATED

KILLS, FARTHEST = 12, 10
"How often a cell is killed, and the most rounds that it may do between two kills."
LONG, SHORT = 300, 120
ATTEMPT = ("costs", "clock", "versions", "hardware", "finished")
"Metadata that belong to the attempt, not to the cell."


def one_cell(folder, rounds):
    """A study of one cell, whose results lie in this folder."""
    return study_of(
        results=str(folder / "results"),
        heterogeneity=[{"partition": "dirichlet", "beta": 0.5, "clients": 4}],
        methods=["fedcosr"],
        training={"batch_size": 512, "participation": 0.5, "eval_every": 5, "rounds": rounds},
        compute={"checkpoint_every": 0.05},
        seeds=[0],
    )


class Place:
    """A folder in which one cell is trained by one process after the other."""

    def __init__(self, folder, rounds):
        self.study = prepared(one_cell(folder, rounds))
        (self.cell,) = self.study.cells
        self.command = cell_command(self.cell, self.study)

    def start(self):
        """The process, in the warm worker where one listens, else by ``python -m``."""
        return subprocess.Popen(self.command, **PIPES)

    def finish(self):
        """Trains to the end; what the process says."""
        run = self.start()
        output = run.communicate()[0]
        assert run.returncode == 0, output
        assert not self.cell.checkpoint.exists() and not self.cell.status.exists()
        return output

    def table(self):
        return pq.read_table(self.cell.file).to_pydict()

    def facts(self):
        """The metadata that are the cell's own."""
        return {key: value for key, value in read_metadata(self.cell.file).items() if key not in ATTEMPT}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def undisturbed(folder, worker):
    """A place where a cell of that many rounds has been trained by one process."""
    trained = {}

    def place(rounds):
        if rounds not in trained:
            trained[rounds] = Place(folder / str(rounds), rounds)
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
    output = ""
    if not blindly:
        output = read_until(run, lambda text: len(rounds_in(text)) >= rounds and place.cell.checkpoint.exists())
    time.sleep(moments.uniform(0, 0.6 if blindly else 0.02))
    run.kill()
    output += run.communicate()[0]  # to the end of the pipe: the process behind the client is gone too
    assert not place.cell.file.exists()
    return output


@pytest.mark.full
def test_twelve_kills_at_random_moments(undisturbed, tmp_path):
    whole = undisturbed(LONG)
    place, moments, continued = Place(tmp_path, LONG), random.Random(5), []
    for attempt in range(KILLS):
        output = killed(place, moments, blindly=attempt % 5 == 4)
        assert place.cell.checkpoint.exists()
        if attempt and output:
            continued.append(output)
    continued.append(place.finish())
    after = [int(re.match(r"continuing after round (\d+) from ", output)[1]) for output in continued]
    assert len(after) >= KILLS - KILLS // 5
    assert after == sorted(after) and 0 < after[0] < after[-1] < LONG
    assert place.table() == whole.table()
    assert place.facts() == whole.facts()


def test_what_a_job_of_the_workflow_began_is_finished_from_python(undisturbed, tmp_path, capfd):
    place = Place(tmp_path, SHORT)
    killed(place, random.Random(5), blindly=False)
    assert ensure_results(place.study, place.cell, place.cell.file) == "trained"
    assert re.search(r"^continuing after round \d+ from ", capfd.readouterr().err, re.M)
    assert not place.cell.checkpoint.exists() and place.table() == undisturbed(SHORT).table()


@pytest.mark.parametrize("kind", ["warm", pytest.param("plain", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)], ids=["SIGTERM", "SIGINT"]
)
def test_a_process_that_is_asked_to_end_keeps_its_last_round(undisturbed, tmp_path, monkeypatch, number, kind):
    whole = undisturbed(SHORT)
    place = Place(tmp_path, SHORT)
    if kind == "plain":
        monkeypatch.delenv(warm.VARIABLE)
    run = place.start()
    output = read_until(run, lambda text: len(rounds_in(text)) > SHORT // 10)
    run.send_signal(number)
    time.sleep(0.01)
    run.send_signal(number)  # the second one changes nothing
    output += run.communicate()[0]
    assert "Traceback" not in output
    assert run.returncode == TERMINATED == 75
    kept = int(re.search(r"^broken off: the checkpoint .* holds (\d+) rounds$", output, re.M)[1])
    assert 0 <= kept - rounds_in(output)[-1] <= 1  # the signal may fall between a round's end and its line
    progress, _ = load_checkpoint(place.cell.checkpoint, whole.cell.key, torch.device("cpu"))
    assert progress.rounds == kept
    assert {entry[0] for entry in progress.record.rows} == set(range(kept + 1))
    monkeypatch.undo()
    assert place.finish().startswith(f"continuing after round {kept} from ")
    assert place.table() == whole.table()
    assert place.facts() == whole.facts()


def test_two_undisturbed_runs_are_equal_byte_for_byte(undisturbed, tmp_path):
    whole = undisturbed(SHORT)
    again = Place(tmp_path, SHORT)
    again.finish()
    assert without_costs(again.cell.file) == without_costs(whole.cell.file)


def without_costs(file):
    """The bytes of a result without its cost and the date on which it was finished."""
    table, metadata = pq.read_table(file), read_metadata(file)
    del metadata["costs"], metadata["clock"], metadata["finished"]
    stream = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"fedgrid": json.dumps(metadata, sort_keys=True)}), stream)
    return stream.getvalue()
