"""``fedgrid report`` on real cells, and the report that the end of a failed run makes."""

import json
import os
import socket
import time
from pathlib import Path

import pytest

from fedgrid.analysis.pages import partial
from fedgrid.grid.study.yaml_file import read
from fedgrid.run.invocation import invocation

TRAIN = ["--beta", "0.5", "--clients", "4", "--rounds", "2", "--model-set", "hidden=16", "--model-set", "features=8"]
FIGURES = {"curves-digits", "partition-digits-dirichlet-beta0.5-clients4", "shares-digits-dirichlet-beta0.5-clients4"}


@pytest.fixture
def run(folder, request):
    """A run of a study of four cells, before any is trained; its plan is there for its jobs."""
    file = Path("study.yaml")
    run = invocation(read(file), [file], submits=False)
    assert run.plan.write() == run.file
    return run


def note(cell, **facts):
    """Writes what a cell's process notes while it has no results."""
    who = {"rounds": 2, "round": 1, "time": time.time(), "host": socket.gethostname(), "job": "", "memory": 10.0}
    cell.status.parent.mkdir(exist_ok=True, parents=True)
    cell.status.write_text(json.dumps(who | facts))


def test_a_run_without_any_finished_cell_has_no_report(run, capsys, complaint):
    nothing = "no cell of s is finished yet"
    assert f"{nothing}, so there is nothing to report" in complaint("report", "--configfile", "study.yaml")
    run.end(failed=True)
    assert f"fedgrid: no report was made: {nothing}" in capsys.readouterr().err
    assert not Path("results/s/partial").exists()


@pytest.mark.full
def test_during_and_after_a_run(run, capsys, output):
    output("run", "local", *TRAIN)
    run.lock.acquire()
    note(run.study.cells[1], state="running", pid=os.getpid())
    note(run.study.cells[2], state="failed", reason="MemoryError:\n too big", pid=1)
    page = Path("results/s/partial/report.html")
    far = "1 of 4 cells is finished; 1 failed, 1 is running, 1 is queued."
    assert output("report", "--configfile", "study.yaml") == f"{page}: {far}\n"
    text = page.read_text()
    assert far in text and "MemoryError: too big" in text and "--configfile study.yaml" in text
    assert {file.stem for file in Path("results/s/partial/figures").glob("*.pdf")} == FIGURES
    run.end(failed=True)
    far = "1 of 4 cells is finished; 1 failed, 1 is running, 1 has not been started."
    assert f"\n{page}: {far}\nStopped" in capsys.readouterr().err
    assert far in page.read_text() and "--configfile study.yaml" in page.read_text()
    assert [file.name for file in Path("results/s").iterdir()] == ["partial"]
    run.end()
    assert not page.parent.exists()


@pytest.mark.full
def test_the_end_of_a_run_says_which_page_it_did_not_make(run, capsys):
    page, partial = Path("results/s/report.html"), Path("results/s/partial")
    partial.mkdir(parents=True)
    run.end(complete=False)
    output = capsys.readouterr().err
    assert "Other tables and pages may be out of date: see fedgrid status." in output and str(page) not in output
    assert partial.is_dir()
    page.touch()
    run.end(failed=True)
    assert f"\n{page} is of an earlier run.\nStopped" in capsys.readouterr().err
    run.end()
    assert f"Done. Look at {page}\n" in capsys.readouterr().err and not partial.exists()


def test_the_report_of_a_plan_that_is_not_there_is_refused(capsys):
    assert partial.main(["none.json"]) == 2
    assert capsys.readouterr().err == "fedgrid: none.json does not exist\n"
