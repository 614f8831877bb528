"""A project that several tests of the Python interface read."""

import os
import sys
from pathlib import Path

import pytest
import yaml

import fedgrid
from fedgrid.cli.main import main


@pytest.fixture(scope="session")
def run_once(tmp_path_factory):
    """A project whose study, the default one with less training, has been run from Python."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("MPLBACKEND", "agg")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        main(["init", "."])
        study = yaml.safe_load(Path("config/study.yaml").read_text())
        study |= {"seeds": [0, 1], "model": {"name": "mlp", "hidden": 8, "features": 8}}
        study["training"]["rounds"] = 2
        Path("config/study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
        fedgrid.study().run(cores=2)
    return folder


@pytest.fixture
def project(run_once, monkeypatch):
    """That project, as the working folder."""
    monkeypatch.chdir(run_once)
    return run_once
