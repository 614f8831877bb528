"""Cells continue from the states of shorter runs, or are the first rounds of longer ones; artifacts can come later."""

import pytest
from earlier import make_adopted, train_all
from studies import prepared, study_of, trained

from fedgrid.cli.main import main
from fedgrid.files import read_metadata, read_table
from fedgrid.grid.earlier.other_rounds import continuation, longer_run, other_rounds_sentences
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.run import notices


def study(rounds, artifacts=("state",), results="results", **changes):
    training = {"rounds": rounds} | changes.pop("training", {})
    text = {"methods": ["fedavg"], "seeds": [0], "artifacts": list(artifacts), "results": results}
    return prepared(study_of(training=training, **text | changes))


def train(planned):
    """The one cell of a study, trained in this process, and its results."""
    train_all(planned)
    (cell,) = planned.cells
    return cell, read_table(cell.file)


def test_twenty_rounds_become_forty(working_folder):
    train(study(2))
    whole, (expected, _) = train(study(5, results="elsewhere"))
    planned = study(5)
    assert other_rounds_sentences(planned.cells) == ["1 cell continues after round 1, from kept states"]
    cell, (table, metadata) = train(planned)
    assert cell.key == whole.key and table.equals(expected)
    assert metadata["continued"] == {"after": 1, "key": study(2).cells[0].key, "adopted": []}
    assert "continued" not in read_metadata(whole.file)
    assert other_rounds_sentences(planned.cells) == []
    _, (again, about) = train(study(9))  # from the longest
    assert about["continued"]["after"] == 4 and again["round"].to_pylist()[-1] == 9


@pytest.mark.full
def test_forty_rounds_have_twenty(working_folder):
    train(study(5, artifacts=()))
    planned = study(2, artifacts=())
    assert other_rounds_sentences(planned.cells) == ["1 cell takes the first rounds of longer runs, without training"]
    (cell,) = planned.cells
    trained(cell, planned)  # as a job
    _, (expected, _) = train(study(2, artifacts=(), results="elsewhere"))
    table, metadata = read_table(cell.file)
    assert table.equals(expected)
    assert (metadata["rounds"], metadata["taken"]["rounds"]) == (2, 5)
    clock = metadata["clock"]
    assert metadata["costs"]["seconds"]["train"] == clock["train"][-1] and len(clock["train"]) == 2
    assert metadata["spec"] == cell.spec


@pytest.mark.parametrize(
    "training",
    [{"evaluate": ["clean", "fgsm"]}, {"eval_every": 3}, {"lr_schedule": "cosine"}],
    ids=["attacks", "an evaluation that the longer run lacks", "a schedule"],
)
def test_rounds_that_differ_are_not_taken(training, working_folder):
    train(study(5, artifacts=(), training=training))
    (cell,) = study(2, artifacts=(), training=training).cells
    assert longer_run(cell) is None


def test_what_is_read_after_the_last_round_is_not_taken(working_folder):
    training = {"lr_schedule": "exponential"}
    for method, taken in (("fedavg", True), ("fedavg_ft", False)):
        train(study(5, artifacts=(), training=training, methods=[method]))
        (cell,) = study(2, artifacts=(), training=training, methods=[method]).cells
        assert bool(longer_run(cell)) is taken


@pytest.mark.parametrize(
    ("shorter", "longer", "reason"),
    [
        ({"artifacts": ()}, {}, "their state was not kept (artifacts: [state])"),
        ({}, {"artifacts": ["cooperation"]}, "their matrices of earlier rounds were not kept"),
        ({"training": {"lr_schedule": "cosine"}}, {}, "the schedule 'cosine' depends on the number of rounds"),
        ({"methods": ["fedproc"]}, {}, "the method depends on the number of rounds"),
    ],
)
def test_a_cell_that_starts_over_says_why(shorter, longer, reason, working_folder):
    train(study(3, **shorter))
    planned = study(5, **shorter | longer)
    (line,) = other_rounds_sentences(planned.cells)
    assert line.startswith("1 cell starts over in spite of results of fewer rounds: ") and reason in line
    _, (_, metadata) = train(planned)
    assert "continued" not in metadata


@pytest.mark.parametrize("changes", [{"seeds": [1]}, {"training": {"lr": 0.1}}, {"methods": ["fedper"]}])
def test_other_cells_are_no_shorter_runs(changes, working_folder):
    train(study(2))
    (cell,) = study(4, **changes).cells
    assert continuation(cell) == (None, "")


def test_artifacts_that_are_asked_for_later_are_made_from_the_state(working_folder):
    _, (before, _) = train(study(3))
    planned = study(3, artifacts=["state", "predictions"])
    (sentence,) = notices.missing_artifact_notices(planned.cells)
    how = "will do the last round again, from its kept state, with the same numbers"
    assert sentence == f"1 finished cell kept no predictions and {how}"
    cell, (table, metadata) = train(planned)
    assert metadata["continued"]["after"] == 2 and table.equals(before)
    assert not cell.set_aside.exists() and cell.state.is_file()
    expected, _ = train(study(3, artifacts=["predictions"], results="elsewhere"))
    files = [each.kept_beside(each.file)["predictions"] for each in (cell, expected)]
    assert read_table(files[0])[0].equals(read_table(files[1])[0])
    cell.state.unlink()
    (sentence,) = notices.missing_artifact_notices(planned.cells)
    assert sentence.endswith("kept no state and will be trained again, with the same numbers")


def test_prune_keeps_what_a_longer_run_would_want(working_folder, capsys):
    short, long = study(2), study(4)
    train(short)
    Plan(long).write()
    (cell,) = short.cells
    assert main(["prune", "--delete"]) == 0 and cell.state.is_file()
    train(long)
    assert main(["prune", "--delete"]) == 0
    assert not cell.state.is_file() and not cell.file.is_file()
    assert all(file.is_file() for file in long.cells[0].files)


def test_a_cell_that_continues_an_adopted_one_says_so(working_folder):
    shorter, _ = train(study(2))
    make_adopted(shorter)
    _, (_, metadata) = train(study(4))
    assert metadata["continued"] == {
        "after": 1,
        "key": shorter.key,
        "adopted": read_metadata(shorter.file)["adopted"],
    }


def test_rounds_of_adopted_results_are_not_taken(working_folder):
    longer, _ = train(study(5, artifacts=()))
    (cell,) = study(2, artifacts=()).cells
    assert longer_run(cell)
    make_adopted(longer)
    assert longer_run(cell) is None
