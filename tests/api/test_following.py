"""`fedgrid export --follow`: what is read of running cells, until the run ends."""

import json
import os
import socket
import time
from types import SimpleNamespace

import pytest
from studies import FOUR_CELLS, RUN, study_of

from fedgrid.api.exporting import following
from fedgrid.cli.main import main
from fedgrid.engine.state.checkpoint import Record, write_checkpoint

LOG = "round 1/2  accuracy 50.25 % (received)  0.10 s/round\nround 2/2  accuracy 61.00 % (received)  0.10 s/round\n"


class Told:
    """A tracker and a writer that remember what they are given."""

    def __init__(self):
        self.runs, self.points, self.ended, self.left = [], [], [], 0

    def begin(self, run):
        self.runs.append(run)
        return self

    def write(self, points):
        self.points += points

    def end(self, ending):
        self.ended.append(ending)

    def leave(self):
        self.left += 1

    def steps(self, tag):
        return [(point.step, point.value) for point in self.points if point.tag == tag]


@pytest.fixture
def study(working_folder):
    """A study whose first cell is running: it has a note, a log, and a checkpoint after its first round."""
    (working_folder / "study.yaml").write_text(FOUR_CELLS)
    study = study_of()
    cell = study.cells[0]
    for file in (cell.status, cell.log):
        file.parent.mkdir(parents=True)
    who = {"host": socket.gethostname(), "pid": os.getpid(), "time": time.time(), "rounds": 2, "round": 1}
    cell.status.write_text(json.dumps(who | {"state": "running"}))
    cell.log.write_text(LOG)
    columns = {"accuracy_received": [0.25, 0.5, 0.5, 0.75], "bytes_up": [8.0] * 4}
    record = Record([(1, metric, [0, 1, 2, 3], values) for metric, values in columns.items()])
    write_checkpoint(cell.checkpoint, {"key": cell.key, "record": record.tensors()})
    return study


def test_a_running_cell_is_followed_to_its_end(study, monkeypatch):
    told, looks = Told(), []

    def sleep(seconds):
        looks.append(told.steps("accuracy/received"))
        if len(looks) == 2:
            study.cells[0].status.unlink()
            study.cells[0].checkpoint.unlink()
            assert main(["run", "local", *RUN]) == 0

    monkeypatch.setattr(following, "time", SimpleNamespace(sleep=sleep))
    assert list(following.follow(study, told)) == ["local/digits/dirichlet-beta0.5-clients4/s0: done"]
    assert looks == [[(1, 0.5)], [(1, 0.5)]]  # the second look found nothing new
    assert told.steps("live/accuracy_received") == [(1, 0.5025), (2, 0.61)]
    assert told.steps("bytes/up")[0] == (1, 32.0)
    received = told.steps("accuracy/received")
    assert [step for step, _ in received] == [1, 0, 2]
    (run,), (ending,) = told.runs, told.ended
    assert run.key == study.cells[0].key and run.parameters["partition.beta"] == 0.5
    assert ending.status == "ok" and ending.metrics["final/accuracy"] > 0 and told.left == 0


def test_a_run_that_ends_without_the_cell_leaves_its_curves_open(study, monkeypatch):
    told = Told()
    monkeypatch.setattr(following, "time", SimpleNamespace(sleep=lambda seconds: study.cells[0].status.unlink()))
    assert list(following.follow(study, told)) == []
    assert told.left == 1 and not told.ended and told.points


def test_where_no_run_is_at_work_it_ends_at_once(study, monkeypatch):
    study.cells[0].status.unlink()
    monkeypatch.setattr(following, "time", SimpleNamespace(sleep=pytest.fail))
    told = Told()
    assert list(following.follow(study, told)) == [] and told.runs == []


def test_a_damaged_checkpoint_and_one_of_another_cell_are_passed_over(study, monkeypatch):
    cell = study.cells[0]
    monkeypatch.setattr(following, "time", SimpleNamespace(sleep=lambda seconds: cell.status.unlink()))
    cell.checkpoint.write_bytes(cell.checkpoint.read_bytes()[:-1])
    told = Told()
    list(following.follow(study, told))
    assert {point.tag for point in told.points} == {"live/accuracy_received"}
