"""What is installed is enough: a project is made and run by an unpacked wheel, out of sight of the clone."""

import os
import subprocess
import sys
import zipfile

import pytest
from checkout import ROOT

STUDY = """
name: tiny
data: digits
heterogeneity: [{partition: homogeneous, clients: 2}]
model: {name: mlp, hidden: 4, features: 4}
training: {rounds: 1}
methods: {local: , mine: {method: ../mine.py}}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package of a wheel in it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def fedgrid(installed, tmp_path):
    """Calls a command of the wheel's package in a project made by it."""
    environment = os.environ | {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}

    def called(*arguments):
        command = [sys.executable, "-P", "-m", "fedgrid.cli.main", *arguments]
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout + run.stderr

    called("init", ".", "--paper", "fedsac")
    called("new-method", "mine")
    (tmp_path / "config/study.yaml").write_text(STUDY)
    return called


def test_a_project_is_made_and_planned(fedgrid):
    assert "2 cells, 0 cached, 2 to run" in fedgrid("plan")


@pytest.mark.full
def test_a_project_is_run(fedgrid, tmp_path):
    assert "only=table1" in fedgrid("go", "config/papers/fedsac.yaml", "--scale=small", "--only=table1", "--dry-run")
    output = fedgrid("go", "--cores", "2")
    assert output.startswith("snakemake --cores 2 --configfile config/study.yaml\n")
    assert "Done. Look at results/tiny/report.html" in output
    assert len(list((tmp_path / "results/store/cells").rglob("*.parquet"))) == 2
    (code,) = (tmp_path / "results/store/code").iterdir()
    assert (code / "fedgrid/workflow/rules/study.smk").is_file()
    assert "2 cached, 0 to run" in fedgrid("plan")
