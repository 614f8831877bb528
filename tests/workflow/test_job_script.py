"""The script that runs a job of the workflow: its exit code when signals come."""

import os
import subprocess
from pathlib import Path

import pytest

from fedgrid.jobs.signals import TERMINATED

JOB_SCRIPT = Path(__file__).parents[2] / "workflow/scripts/job.sh"
NAMES = ["INT", "TERM", "USR1"]


def run_script(folder, interpreter, **variables):
    """A job of the workflow with that text in place of Python: exit code and output."""
    (folder / "python").write_text(f"#!/usr/bin/env bash\n{interpreter}\n")
    (folder / "python").chmod(0o755)
    environment = os.environ | {"PYTHON": str(folder / "python"), "WARM": ""} | variables
    command = ["bash", str(JOB_SCRIPT), str(folder / "log"), "module"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    return run.returncode, run.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_dies_of_a_signal_of_the_whole_job_was_interrupted(tmp_path, name):
    code, _ = run_script(tmp_path, f"kill -{name} $PPID $$; sleep 600")
    assert code == TERMINATED


@pytest.mark.parametrize("name", NAMES)
def test_a_job_that_finishes_in_spite_of_a_signal_is_finished(tmp_path, name):
    assert run_script(tmp_path, f"kill -{name} $PPID") == (0, "")


def test_a_process_that_is_killed_alone_is_a_failed_job(tmp_path):
    code, output = run_script(tmp_path, "kill -TERM $$; sleep 600")
    assert code == 143 and output.endswith("fedgrid: the process of this job was killed (signal 15)\n")


@pytest.mark.parametrize(("given", "expected"), [("", "/kept"), ("/mine", "/kept:/mine")])
def test_the_code_of_the_run_comes_first_even_where_snakemake_took_the_variable_away(tmp_path, given, expected):
    run_script(tmp_path, "echo $PYTHONPATH", FEDGRID_CODE="/kept", PYTHONPATH=given)
    assert (tmp_path / "log").read_text() == f"{expected}\n"
