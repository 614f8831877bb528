"""What a study reads is packed, and unpacked elsewhere at the same places: every kind of file that it may name."""

import os
import sys
from pathlib import Path

import numpy as np
import plugins
import pytest
from archives import contents, packed

import fedgrid
from fedgrid.api.archive.contents import project_members
from fedgrid.api.study_file import read_study
from fedgrid.cli.main import main

STUDY = """
name: all
published: printed.csv
data: digits
heterogeneity:
- {partition: "file:../parts/s{seed}.parquet", label: published}
- {partition: {import: ../parts/rows.csv}, label: rows}
- {partition: {import: ../pfl}, label: PFLlib}
seeds: [0, 1]
methods:
- include: more/rows.yaml
- include: Makefile
- ../linked/mine.py
- theirs: {results: theirs.csv, title: Theirs}
experiments: {table: {show: [{table: accuracy}]}}
"""
EXTERNAL = "data,heterogeneity,seed,mean\ndigits,published,0,0.5\ndigits,published,1,0.6\n"
METHOD = """
from common.layers import HALF
from code import HELP
from fedgrid.methods.fedavg import FedAvg


class Mine(FedAvg):
    files = ("numbers/prior.txt", "weights.pth")
"""
FILES = {
    "config/study.yaml": STUDY,
    "config/printed.csv": "experiment,row,data,heterogeneity,domain,metric,value,corrected,rank,note\n",
    "config/more/rows.yaml": "- include: ../last.yaml\n- local\n",
    "config/last.yaml": "[fedavg]\n",
    "config/theirs.csv": EXTERNAL,
    "linked/mine.py": METHOD,
    "linked/common/__init__.py": "",
    "linked/common/layers.py": "HALF = 0.5\n",
    "linked/numbers/prior.txt": "1\n",
    "parts/rows.csv": "client,split,index\n" + "".join(f"{i % 4},{('train', 'test')[i > 30]},{i}\n" for i in range(40)),
}
REFUSED = {
    "config/Makefile": "[{others: {results: others.csv}}]\n",
    "config/others.csv": EXTERNAL,
    "linked/code.py": "from helper import HELP\n",
    "linked/helper.py": "HELP = 1\n",
    "linked/weights.pth": "",
}
"What a program would run or obey because of its name, and files that nothing else names: they stay in the archive."
UNUSED = ("linked/other.py", "config/other.yaml", "parts/s2.parquet", "pfl/train/notes.txt", "pfl/config.json")
"What lies beside them, and is not packed."


@pytest.fixture
def folder(here):
    """A working folder, and another one beside it."""
    (here.parent / "elsewhere").mkdir()
    return here


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def project_of(file):
    """The files of a study as its archive has them: content by name."""
    members = list(project_members(Path(file), read_study(Path(file))))
    return {member.name: member.source.read_bytes() for member in members}


def unpacked(project, study, monkeypatch, capsys):
    """Names of the files elsewhere, once an archive with this project has been opened there."""
    Path("../a.zip").write_bytes(packed(contents(project, study=study)))
    monkeypatch.chdir("../elsewhere")
    capsys.readouterr()
    assert main(["open", "../a.zip"]) == 0, capsys.readouterr().err
    return {file.as_posix() for file in Path().rglob("*") if file.is_file() and "results" not in file.parts}


def write_pfllib(folder):
    """A folder of PFLlib's, of two clients with random images of the size of digits."""
    images = np.random.default_rng(0).random((10, 1, 8, 8), np.float32)
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
        for client in range(2):
            np.savez_compressed(folder / part / f"{client}.npz", data={"x": images, "y": np.arange(10)})


def test_files_of_every_kind_come_along(folder, monkeypatch, capsys):
    Path("../library").mkdir()
    Path("linked").symlink_to("../library")
    write(folder, FILES)
    for seed in (0, 1):
        made = fedgrid.make_partition("digits", {"partition": "dirichlet", "clients": 4}, seed, results="../made")
        (folder / f"parts/s{seed}.parquet").write_bytes(made.file.read_bytes())
    write_pfllib(folder / "pfl")
    partitions = {f"pfl/{part}/{client}.npz" for part in ("train", "test") for client in range(2)}
    names = {*FILES, "parts/s0.parquet", "parts/s1.parquet", *partitions}
    write(folder, REFUSED | dict.fromkeys(UNUSED, ""))
    project = project_of("config/study.yaml")
    left = {f"outside/{name.replace('/', '-')}" for name in REFUSED}
    assert {*project} == {f"project/{name}" for name in names} | left
    assert unpacked(project, "config/study.yaml", monkeypatch, capsys) == names
    assert all(Path(name).read_bytes() == project[f"project/{name}"] for name in names)


@pytest.mark.full
def test_a_run_elsewhere_finds_nothing_to_train(folder, monkeypatch, capsys):
    pytest.importorskip("rocrate")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    plugins.write(folder)
    fedgrid.study("study.yaml").run(cores=2)
    assert main(["bundle", "study.yaml", "--out", "../a.zip"]) == 0
    monkeypatch.chdir("../elsewhere")
    assert main(["open", "../a.zip"]) == 0
    assert main(["plan", "--configfile", "study.yaml"]) == 0
    assert "2 cached, 0 to run" in capsys.readouterr().out
