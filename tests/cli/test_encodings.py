"""Names that are not UTF-8, and terminals that lack a letter: one sentence, or an escape, and never a traceback."""

import io
import os
import sys
from argparse import ArgumentParser
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from fedgrid.cli.main import main
from fedgrid.command import run
from fedgrid.errors import say

NAME = os.fsdecode(b"caf\xe9")
"A name in Latin-1, as Python takes it from a command line."


@pytest.mark.parametrize(
    "arguments",
    [
        ["init", NAME],
        ["new-method", "mine", "--folder", NAME],
        ["compare", "fedavg", "--out", f"{NAME}.yaml"],
        ["plan", "--configfile", f"{NAME}.yaml"],
        ["inspect", f"{NAME}.parquet"],
        ["bundle", "study.yaml", "--license", NAME],
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_argument_that_is_not_utf8_is_one_sentence(folder, untouched, complaint, arguments):
    with untouched():
        sentence = complaint(*arguments)
    assert sentence.startswith(r"fedgrid: the command: 'caf\udce9") and "is not UTF-8" in sentence


def test_a_project_in_a_folder_that_is_not_utf8(folder, complaint, monkeypatch):
    os.mkdir(NAME)
    monkeypatch.chdir(NAME)
    assert "FOLDER: '" in (sentence := complaint("init", ".")) and "is not UTF-8" in sentence
    assert not list(Path().iterdir())


def test_control_characters_of_a_name_are_shown_and_not_obeyed(folder, complaint):
    assert complaint("plan", "--configfile", "a\x1b[31m\tb").startswith(r"fedgrid: a\x1b[31m\tb: cannot be read")


def printed_in_ascii(command) -> str:
    """What a command prints, which has to succeed, on a terminal that knows no other letters."""
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    with redirect_stdout(terminal):
        assert command() == 0
        terminal.flush()
    return terminal.buffer.getvalue().decode("ascii")


def test_a_letter_that_a_terminal_lacks_is_printed_as_an_escape():
    assert r"shares: \u03b8" in printed_in_ascii(lambda: main(["methods", "fedprox"]))


def test_a_job_prints_such_a_letter_too():
    parser = ArgumentParser()
    parser.set_defaults(action=lambda: say("µ.parquet", sys.stdout))
    assert printed_in_ascii(lambda: run(parser, [])) == "\\xb5.parquet\n"
