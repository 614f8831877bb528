"""``fedgrid report`` on real cells, and what the end of a run makes of it."""

import json
import os
import socket
import time
from pathlib import Path

import pytest
from studies import FOUR_CELLS

from fedgrid.cli.main import main
from fedgrid.grid.study import read
from fedgrid.run.invocation import Run

TRAIN = ["--beta", "0.5", "--clients", "4", "--rounds", "2", "--model-set", "hidden=16", "--model-set", "features=8"]
FIGURES = {"curves-digits", "partition-digits-dirichlet-beta0.5-clients4", "shares-digits-dirichlet-beta0.5-clients4"}


@pytest.fixture
def run(tmp_path, monkeypatch, request):
    """A run of a study of four cells, before any is trained."""
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(FOUR_CELLS)
    return Run(read(Path("study.yaml")), ["study.yaml"], request.config.rootpath, submits=False, begins=True)


def note(cell, **facts):
    """Writes what a cell's process notes while it has no results."""
    who = {"rounds": 2, "round": 1, "time": time.time(), "host": socket.gethostname(), "job": "", "memory": 10.0}
    cell.status.parent.mkdir(exist_ok=True)
    cell.status.write_text(json.dumps(who | facts))


def test_before_during_and_after_a_run(run, capsys):
    report = ["report", "--configfile", "study.yaml"]
    assert main(report) == 2
    assert "no cell of s is finished yet, so there is nothing to report" in capsys.readouterr().err
    run.end(failed=True)
    assert "fedgrid: no report was made: no cell of s is finished yet" in capsys.readouterr().err
    assert main(["run", "local", *TRAIN]) == 0
    run.lock.acquire()
    note(run.study.cells[1], state="running", pid=os.getpid())
    note(run.study.cells[2], state="failed", reason="MemoryError:\n too big", pid=1)
    capsys.readouterr()
    assert main(report) == 0
    page = Path("results/s/partial/report.html")
    far = "1 of 4 cells is finished; 1 failed, 1 is running, 1 waits."
    assert capsys.readouterr().out == f"{page}: {far}\n"
    text = page.read_text()
    assert far in text and "MemoryError: too big" in text and "--configfile study.yaml" in text
    assert {file.stem for file in Path("results/s/partial/figures").iterdir()} == FIGURES
    run.end(failed=True)
    far = "1 of 4 cells is finished; 1 failed, 1 is running, 1 has not been started."
    assert f"\n{page}: {far}\nStopped" in capsys.readouterr().err
    assert far in page.read_text() and "--configfile study.yaml" in page.read_text()
    made = {file.name for file in Path("results/s").iterdir()}
    assert made == {"manifest.json", "analysis.json", "partial"}
    run.end()
    assert not page.parent.exists()
