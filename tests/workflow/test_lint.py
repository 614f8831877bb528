"""Snakemake's own linter."""

import re
import subprocess
import sys

from checkout import ROOT

ENVIRONMENT = "Specify a conda environment or container for each rule."


def test_the_linter_has_one_complaint_alone():
    """Rules name no environment: every job runs in the one that runs Snakemake, which holds fedgrid."""
    command = [sys.executable, "-m", "snakemake", "--lint"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert set(re.findall(r"^    \* (.*):$", run.stdout + run.stderr, re.M)) == {ENVIRONMENT}, run.stdout
