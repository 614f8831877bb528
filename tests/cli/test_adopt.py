"""``fedgrid adopt``: what it says before, while and after results are carried."""

import pytest
from earlier import edited, make_earlier, trained_study

from fedgrid.cli.main import main
from fedgrid.files import read_metadata


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return trained_study(tmp_path)


def test_a_dry_run_says_what_a_call_would_do_and_does_nothing(study, capsys):
    for cell in study.cells:
        make_earlier(cell)
    assert main(["adopt", "--dry-run", "--check", "1"]) == 0
    message = capsys.readouterr().out
    assert "local on mlp, code 00000000 → " in message and "edited: tree\n" in message
    assert "to train and compare: 1, which took " in message and "to adopt then: 1\n" in message
    assert not any(cell.done for cell in study.cells)


def test_results_are_adopted_and_taken_back(study, capsys):
    for cell in study.cells:
        make_earlier(cell)
    for command in ("plan", "status"):
        assert main([command]) == 0
        assert "2 cells have results under earlier code (tree edited): fedgrid adopt" in capsys.readouterr().out
    assert main(["adopt", "--check", "1"]) == 0
    summary = "1 cell adopted, 1 trained to check them; 0 refused, 0 that cannot be checked here"
    assert summary in capsys.readouterr().out
    assert main(["explain", "local"]) == 0
    assert "of code 0000000000000000, checked on 1 of 2 cells on " in capsys.readouterr().out
    assert main(["plan"]) == 0 and "earlier code" not in capsys.readouterr().out
    assert main(["adopt"]) == 0 and capsys.readouterr().out == "no missing cell has results under earlier code\n"
    assert main(["adopt", "--undo"]) == 0
    assert "1 result has its earlier key again" in capsys.readouterr().out
    assert main(["adopt", "--undo"]) == 0
    assert "nothing was adopted" in capsys.readouterr().out


def test_a_difference_is_named_and_gives_exit_code_1(study, capsys):
    for cell in study.cells:
        make_earlier(cell, edited(1, "accuracy_trained"))
    assert main(["adopt", "--check", "1"]) == 1
    message = capsys.readouterr().out
    assert "refused: local, digits, " in message and "round 1, accuracy_trained of client 0: " in message
    assert message.endswith("the next run trains the refused cells; their earlier results stay in the store\n")
    assert main(["adopt", "--dry-run", "--check", "1"]) == 0
    message = capsys.readouterr().out
    assert "would be refused: local, digits, " in message and "to train" not in message


def test_results_that_cannot_be_checked_here_wait(study, capsys):
    for cell in study.cells:
        make_earlier(cell, versions=read_metadata(cell.file)["versions"] | {"torch": "1.0"})
    for options in (["--dry-run"], []):
        assert main(["adopt", *options]) == 0
        assert "  cannot be checked here: computed with torch 1.0 (here " in (message := capsys.readouterr().out)
    assert message.endswith("0 refused, 2 that cannot be checked here\n")


@pytest.mark.full
def test_a_store_that_is_not_there_yet_takes_over_another_ones_results(study, capsys):
    for cell in study.cells:
        make_earlier(cell)
    study.store.parent.rename("colleague")
    assert main(["adopt"]) == 2 and "no results yet" in capsys.readouterr().err
    source = ["--from", "colleague/store", "--check", "1"]
    assert main(["adopt", "--dry-run", *source]) == 0 and not study.store.exists()
    assert main(["adopt", *source]) == 0 and all(cell.done for cell in study.cells)


def test_wrong_options(study, capsys, tmp_path):
    assert main(["adopt", "--check", "0"]) == 2 and "--check: must be at least 1, got 0" in capsys.readouterr().err
    assert main(["adopt", "--from", str(tmp_path)]) == 2 and "is not a store" in capsys.readouterr().err
