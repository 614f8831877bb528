"""Results name every machine that computed rounds of theirs; what several computed is compared with nothing."""

import pytest
from studies import prepared, study_of, trained

from fedgrid.api.explanation import explain
from fedgrid.api.verification import obstacles
from fedgrid.engine.state.saving import Saving, Terminated
from fedgrid.files import read_metadata
from fedgrid.grid.earlier.circumstances import Circumstances
from fedgrid.grid.plan.cell_metadata import CellMetadata, Costs, Platform, Seconds, cell_metadata
from fedgrid.jobs import machine
from fedgrid.jobs.attempts import Attempts, notes_of
from fedgrid.jobs.cell import train
from fedgrid.jobs.machine import processor

ROUNDS = 4


def described(name):
    hardware = {"host": "node", "cpu": name, "instructions": "", "threads": 1, "executor": "auto", "device": "cpu"}
    return Platform({"torch": "2.6", "numpy": "2"}, hardware)


def begun(checkpoint, name, rounds):
    """An attempt of a machine that goes on after so many rounds."""
    attempt = Attempts(checkpoint, described(name))
    attempt.begin(rounds)
    return attempt


def named(attempt):
    """Processors of the attempts in metadata, with the rounds after which these went on."""
    present, costs = attempt.present, Costs(Seconds(1.0))
    results = {"key": "k", "spec": {}, "modules": {}, "finished": "", "status": "ok", "score": "", "rounds": 9}
    about = CellMetadata(versions=present.versions, hardware=present.hardware, costs=costs, **results)
    return [(entry.hardware["cpu"], entry.after) for entry in attempt.noted_in(about).attempts]


@pytest.fixture
def checkpoint(tmp_path):
    file = tmp_path / "cell.pt"
    file.touch()
    return file


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([("one", 0)], []),
        ([("one", 0), ("one", 3), ("one", 3)], []),
        ([("one", 0), ("two", 3)], [("one", 0), ("two", 3)]),
        ([("one", 0), ("two", 3), ("two", 7)], [("one", 0), ("two", 3)]),
        ([("one", 0), ("two", 3), ("one", 9)], [("one", 0), ("two", 3), ("one", 9)]),
        ([("one", 0), ("two", 3), ("one", 3)], []),
        ([("one", 0), ("two", 0)], []),
    ],
    ids=["alone", "same machine", "two", "the second twice", "and back", "two left nothing", "one left nothing"],
)
def test_attempts_that_left_rounds_behind_are_listed(checkpoint, starts, expected):
    for name, rounds in starts:
        last = begun(checkpoint, name, rounds)
    assert named(last) == expected


def test_without_a_checkpoint_nothing_came_before(checkpoint):
    begun(checkpoint, "one", 0)
    checkpoint.unlink()
    assert named(begun(checkpoint, "two", 5)) == []


def test_damaged_notes_do_not_stop_a_cell(checkpoint):
    begun(checkpoint, "one", 0)
    notes_of(checkpoint).write_text("{")
    assert named(begun(checkpoint, "two", 5)) == []


def one_cell(rounds=ROUNDS, artifacts=()):
    return prepared(
        study_of(methods=["fedavg"], seeds=[0], training={"rounds": rounds}, artifacts=list(artifacts)),
    )


def interrupted(study, after):
    """Trains the study's one cell until so many rounds are done."""
    (cell,) = study.cells

    def tell(progress, remark):
        if progress.rounds == after and not remark:
            raise Terminated

    with pytest.raises(Terminated):
        train(cell, cell.file, study.compute, Saving(cell.checkpoint, cell.key, every=1e9), tell)


@pytest.fixture
def study(working_folder, monkeypatch):
    """A cell that another processor began and this one finished."""
    study = one_cell()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(machine, "processor", lambda: "another processor")
        interrupted(study, after=2)
    (cell,) = study.cells
    assert notes_of(cell.checkpoint).is_file()
    trained(cell, study)
    return study


def test_results_name_both_machines(study):
    (cell,) = study.cells
    metadata = cell_metadata(cell.file)
    first, last = metadata.attempts
    assert (first.after, first.hardware["cpu"]) == (0, "another processor")
    assert (last.after, last.hardware["cpu"]) == (2, processor())
    assert metadata.hardware.pop("before").startswith("to round 2: another processor, cpu, 1 thread")
    assert metadata.hardware == last.hardware
    assert not notes_of(cell.checkpoint).exists()
    text = "\n".join(explain([("", study)], [cell.key], with_code=False))
    assert "attempt    after round 0: another processor, cpu" in text


def test_what_two_machines_computed_is_compared_with_nothing(study):
    (cell,) = study.cells
    (obstacle,) = obstacles(Circumstances.of(cell_metadata(cell.file)))
    assert obstacle.startswith("other machines in earlier attempts (to round 2: another processor, cpu")


def test_one_machine_is_named_once(working_folder):
    study = one_cell()
    interrupted(study, after=1)
    (cell,) = study.cells
    trained(cell, study)
    assert "attempts" not in read_metadata(cell.file)


def test_attempts_of_the_run_that_a_cell_continues_come_first(working_folder, monkeypatch):
    shorter = one_cell(2, ["state"])
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(machine, "processor", lambda: "another processor")
        (cell,) = shorter.cells
        train(cell, cell.file, shorter.compute, Saving(cell.checkpoint, cell.key, every=1e9))
    longer = one_cell(ROUNDS)
    trained(longer.cells[0], longer)
    listed = cell_metadata(longer.cells[0].file).attempts
    assert [(entry.after, entry.hardware["cpu"]) for entry in listed] == [
        (0, "another processor"),
        (1, processor()),
    ]
