"""Cells of a study that are trained on a machine without the workflow, and come back as if trained here."""

import math
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import lacking
import pytest

from benchmarks import lent
from benchmarks.processes import ROOT
from fedgrid.api.study_file import read_study

STUDY = """
name: s
data: digits
heterogeneity: [{partition: homogeneous, clients: 3}]
seeds: [0]
model: {name: mlp, hidden: 8, features: 8}
training: {rounds: 2}
methods: {fedavg: , local: , ditto: }
"""


@pytest.fixture
def packed(working_folder, monkeypatch):
    """The folder that is carried."""
    Path("study.yaml").write_text(STUDY)
    folder = working_folder / "carried"
    lent.main(["pack", "study.yaml", str(folder), "--methods", "local", "fedavg"])
    return folder


def worked(folder, out, seconds):
    """What a process without the packages of the workflow prints, which trains the packed cells."""
    out.mkdir(exist_ok=True)
    environment = lacking.environment(out) | {"PYTHONPATH": os.pathsep.join([str(out), "src", "."])}
    command = [sys.executable, "-m", "benchmarks.lent", "work", str(folder), str(out), "--seconds", str(seconds)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def test_cells_of_the_named_methods_come_back(packed, tmp_path):
    said = worked(packed, tmp_path / "out", 300)
    assert said.count("exit code 0") == 2 and said.startswith("in turns: there is no nvidia-cuda-mps-control here")
    with tarfile.open(tmp_path / "out/cells.tar.xz") as archive:
        archive.extractall(filter="data")
    cells = {cell.row.component.name: cell for cell in read_study(Path("study.yaml")).cells}
    assert {name: cell.done for name, cell in cells.items()} == {"fedavg": True, "local": True, "ditto": False}
    assert lent.pack(read_study(Path("study.yaml")), packed, ["fedavg", "ditto"]) == [cells["ditto"]]


def test_jobs_look_for_modules_where_the_command_did(packed, monkeypatch):
    here = Path.cwd()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["src", ".", "/elsewhere"]))
    monkeypatch.setattr(lent, "work", lambda *_: None)
    lent.main(["work", str(packed), str(here), "--seconds", "0"])
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(here / "src"), str(here), "/elsewhere"]


def test_without_images_no_cell_begins(packed, tmp_path, monkeypatch):
    monkeypatch.chdir(packed)
    monkeypatch.setattr(lent, "started", lambda module, key: SimpleNamespace(wait=lambda: 2))
    with pytest.raises(SystemExit, match="there are no images: see logs/"):
        lent.work(tmp_path, math.inf, 1)


def test_without_time_nothing_is_trained(packed, tmp_path):
    assert "exit code" not in worked(packed, tmp_path / "out", 0)
    with tarfile.open(tmp_path / "out/cells.tar.xz") as archive:
        assert not archive.getnames()
