"""NVIDIA's MPS around a benchmark: started in a folder of its own, ended, and missed where it is not installed."""

import os
from pathlib import Path

import pytest

from benchmarks import mps
from benchmarks.processes import Failed
from fedgrid.jobs.gpus import MPS, MPS_PIPES

CONTROL = f"""#!/bin/sh
echo "$@" "$(cat)" >> "$LOG"
test -d "${MPS_PIPES}" && exit "$CODE"
"""


@pytest.fixture
def control(tmp_path, monkeypatch):
    """A program in the place of the control, which writes what it is told to the file that is returned."""
    program, log = tmp_path / MPS, tmp_path / "log"
    program.write_text(CONTROL)
    program.chmod(0o755)
    for name, value in (("PATH", f"{tmp_path}:{os.environ['PATH']}"), ("LOG", str(log)), ("CODE", "0")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(MPS_PIPES, "/tmp/somewhere")
    return log


def test_it_runs_as_long_as_it_is_needed(control):
    with mps.multi_process_service():
        pipes = Path(os.environ[MPS_PIPES])
        assert pipes.is_dir() and control.read_text() == "-d \n"
    assert control.read_text() == "-d \nquit\n"
    assert os.environ[MPS_PIPES] == "/tmp/somewhere" and not pipes.exists()


def test_one_that_does_not_start_is_a_failure(control, monkeypatch):
    monkeypatch.setenv("CODE", "1")
    with pytest.raises(Failed, match=f"{MPS}: .*exit status 1"), mps.multi_process_service():
        pytest.fail("it has started")
    assert os.environ[MPS_PIPES] == "/tmp/somewhere"


def test_without_it_there_is_nothing_to_measure(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Failed, match=f"there is no {MPS} here"), mps.multi_process_service():
        pytest.fail("it has started")
