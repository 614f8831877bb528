"""Snakemake's own linter, with fedgrid and without it, and what its catalog of workflows reads."""

import os
import subprocess
import sys

import pytest
import yaml
from checkout import ROOT, STUDY

SNAKEFILES = ["Snakefile", "workflow/Snakefile"]
WITHOUT_FEDGRID = """
import sys
from pathlib import Path

sys.path[:] = [folder for folder in sys.path if not Path(folder, "fedgrid/__init__.py").exists()]
from snakemake.cli import main

main(sys.argv[1:])
"""
"""Starts Snakemake as where fedgrid is not installed."""


def without_fedgrid(*arguments):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", WITHOUT_FEDGRID, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("snakefile", SNAKEFILES)
def test_the_linter_needs_no_fedgrid(snakefile):
    run = without_fedgrid("--lint", "--snakefile", snakefile)
    assert run.returncode == 0 and "in a good condition" in run.stderr, run.stdout + run.stderr


@pytest.fixture
def planned(tmp_path):
    """Prints what Snakemake says of a small study, with fedgrid."""
    (tmp_path / "tiny.yaml").write_text(STUDY)

    def called(*arguments):
        command = [sys.executable, "-m", "snakemake", *arguments, "--configfile", str(tmp_path / "tiny.yaml")]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    return called


def test_the_linter_reads_the_same_rules_without_fedgrid(planned):
    """The rule `paper` is for studies with experiments, which this one has not."""
    rules = set(without_fedgrid("--list-rules").stdout.split())
    assert rules == {*planned("--list-rules").split(), "paper"} and len(rules) > 7


@pytest.mark.parametrize("snakefile", SNAKEFILES)
def test_a_run_without_fedgrid_says_what_to_install(snakefile):
    run = without_fedgrid("--dry-run", "--snakefile", snakefile)
    (sentence,) = (line for line in run.stderr.splitlines() if line.startswith("fedgrid: "))
    assert run.returncode == 1 and "pip install fedgrid" in sentence and "Traceback" not in run.stderr


def test_both_snakefiles_ask_for_the_same_files(planned):
    """Their first rules differ in name alone."""
    inner, outer = (planned("--summary", "--snakefile", snakefile).splitlines() for snakefile in SNAKEFILES)
    assert inner == outer and any(line.startswith("results/tiny/report.html") for line in inner)


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
