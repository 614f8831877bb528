"""Snakemake's own linter, and what its catalog of workflows reads."""

import subprocess
import sys

import pytest
import yaml
from checkout import ROOT


@pytest.mark.parametrize(
    "study", ["config/study.yaml", pytest.param("config/papers/fedcosr.yaml", marks=pytest.mark.full)]
)
def test_the_linter_has_no_complaint(study):
    """A study with experiments has one rule more."""
    command = [sys.executable, "-m", "snakemake", "--lint", "--configfile", study]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0 and "in a good condition" in run.stderr, run.stdout + run.stderr


def test_the_catalog_finds_how_the_workflow_is_used():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert usage["report"] is True and not any(usage["software-stack-deployment"].values())
    studies = {file.name for file in (ROOT / "config").glob("*.yaml")}
    described = (ROOT / "config/README.md").read_text()
    assert studies and all(f"`{name}`" in described for name in studies)
