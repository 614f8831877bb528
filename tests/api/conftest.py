"""A project that several tests of the Python interface read."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml

import fedgrid
from fedgrid.cli.main import main
from fedgrid.files import lock


@pytest.fixture(scope="session")
def run_once(tmp_path_factory):
    """A project whose study, the default one with less training, has been run from Python.

    It is run once for all workers of a test run, each of which has a copy of its own.
    """
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "project"
    with open(f"{shared}.lock", "w") as turn:
        lock(turn, wait=True)
        if not shared.exists():
            making = shared.with_suffix(".making")
            making.mkdir()
            run_project(making)
            making.rename(shared)
    return Path(shutil.copytree(shared, own / "copy of the project"))


def run_project(folder):
    """Makes the project and runs its study."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("MPLBACKEND", "agg")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        main(["init", "."])
        study = yaml.safe_load(Path("config/study.yaml").read_text())
        study |= {"seeds": [0, 1], "model": {"name": "mlp", "hidden": 8, "features": 8}}
        study["methods"] = {name: study["methods"][name] for name in ("local", "fedavg", "ditto", "fedcosr")}
        study["training"]["rounds"] = 2
        Path("config/study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
        fedgrid.study().run(cores=2)


@pytest.fixture
def project(run_once, monkeypatch):
    """That project, as the working folder."""
    monkeypatch.chdir(run_once)
    return run_once


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder in another one."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"
