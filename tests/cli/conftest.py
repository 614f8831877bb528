"""A folder with a study, and commands called in it as a user would."""

from contextlib import contextmanager
from functools import partial

import commands
import pytest
from studies import FOUR_CELLS


@pytest.fixture
def folder(working_folder):
    """The folder in which the commands are called: it holds ``study.yaml``."""
    (working_folder / "study.yaml").write_text(FOUR_CELLS)
    return working_folder


@pytest.fixture
def output(capsys):
    """What a command prints; it has to succeed."""
    return partial(commands.output, capsys)


@pytest.fixture
def complaint(capsys):
    """The one sentence with which a command refuses."""
    return partial(commands.complaint, capsys)


@pytest.fixture
def untouched(folder):
    """What is called within leaves every file of the folder, and the set of files, as they are."""

    def content():
        return {file: file.read_bytes() if file.is_file() else None for file in folder.rglob("*")}

    @contextmanager
    def watched():
        before = content()
        yield
        assert content() == before

    return watched
