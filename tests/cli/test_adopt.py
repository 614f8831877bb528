"""``fedgrid adopt``: what it says before, while and after results are carried."""

import pytest
import yaml
from earlier import edited, make_earlier, train_all
from studies import FOUR_CELLS, prepared

from fedgrid.cli.main import main
from fedgrid.cli.studies import read_study


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "config" / "study.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(yaml.safe_load(FOUR_CELLS) | {"methods": ["local"], "seeds": [0, 1]}))
    study = prepared(read_study(file))
    train_all(study)
    return study


def test_a_dry_run_says_what_a_call_would_do_and_does_nothing(study, capsys):
    for cell in study.cells:
        make_earlier(cell)
    assert main(["adopt", "--dry-run", "--check", "1"]) == 0
    message = capsys.readouterr().out
    assert "local on mlp, code 00000000 → " in message and "edited: tree\n" in message
    assert "to train and compare: 1, " in message and "to adopt then: 1\n" in message
    assert not any(cell.done for cell in study.cells)


def test_results_are_adopted_and_taken_back(study, capsys):
    for cell in study.cells:
        make_earlier(cell)
    for command in ("plan", "status"):
        assert main([command]) == 0
        assert "2 cells have results under earlier code (tree edited): fedgrid adopt" in capsys.readouterr().out
    assert main(["adopt", "--check", "1"]) == 0
    assert "1 cells adopted, 1 trained to check them; 0 refused, 0 for another machine" in capsys.readouterr().out
    assert main(["explain", "local"]) == 0
    assert "of code 0000000000000000, checked on 1 of 2 cells on " in capsys.readouterr().out
    assert main(["plan"]) == 0 and "earlier code" not in capsys.readouterr().out
    assert main(["adopt", "--undo"]) == 0
    assert "1 results have their earlier keys again" in capsys.readouterr().out
    assert main(["adopt", "--undo"]) == 0
    assert "nothing was adopted" in capsys.readouterr().out


def test_a_difference_is_named_and_gives_exit_code_1(study, capsys):
    for cell in study.cells:
        make_earlier(cell, edited(1, "accuracy_trained"))
    assert main(["adopt", "--check", "1"]) == 1
    message = capsys.readouterr().out
    assert "refused: local, digits, " in message and "round 1, accuracy_trained of client 0: " in message


def test_wrong_options(study, capsys, tmp_path):
    assert main(["adopt", "--check", "0"]) == 2 and "--check: must be at least 1, got 0" in capsys.readouterr().err
    assert main(["adopt", "--from", str(tmp_path)]) == 2 and "is not a store" in capsys.readouterr().err
