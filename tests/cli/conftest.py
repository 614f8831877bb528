"""A folder with a study, and commands called in it as a user would."""

from contextlib import contextmanager

import pytest
from studies import FOUR_CELLS

from fedgrid.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder in which the commands are called: it holds ``study.yaml``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(FOUR_CELLS)
    return tmp_path


@pytest.fixture
def output(capsys):
    """What a command prints; it has to succeed."""

    def call(*arguments):
        capsys.readouterr()
        assert main(list(map(str, arguments))) == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def complaint(capsys):
    """The one sentence with which a command refuses."""

    def call(*arguments):
        capsys.readouterr()
        assert main(list(map(str, arguments))) == 2
        error = capsys.readouterr().err
        assert error.startswith("fedgrid: ") and error.count("\n") == 1
        return error

    return call


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
