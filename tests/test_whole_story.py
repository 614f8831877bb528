"""The page docs/whole-story.md, done as it says: pictures, a table, a network, other people's numbers, one archive."""

import csv
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from test_docs import ROOT, STORY, blocks

pytest.importorskip("rocrate")

PAGE = [ROOT / "docs" / STORY]
CLASSES, STATIONS = ("heron", "owl", "wren"), ("lake", "forest", "town")
OF_EACH = {"train": 80, "test": 20}


def take_pictures(random):
    """300 pictures: a class each has a bright square in a colour and a corner of its own."""
    for part, count in OF_EACH.items():
        for number, name in enumerate(CLASSES):
            folder = Path("birds", part, name)
            folder.mkdir(parents=True)
            for i in range(1, count + 1):
                pixels = random.integers(0, 120, (12, 12, 3), dtype=np.uint8)
                pixels[4 * number : 4 * number + 4, :, number] += 120
                Image.fromarray(pixels).save(folder / f"{i:03}.png")


def write_stations(random, header):
    """Seven of ten pictures of a class were taken at its station, the others anywhere."""
    lines = [header]
    for file in sorted(Path("birds").rglob("*.png")):
        part, name, _ = file.relative_to("birds").parts
        at = CLASSES.index(name) if random.random() < 0.7 else random.integers(3)
        lines.append(f"{STATIONS[at]},{part},{file.relative_to('birds').as_posix()}")
    Path("stations.csv").write_text("\n".join(lines) + "\n")


def commands():
    """The page's commands, in its order."""
    return [shlex.split(line)[1:] for _, text in blocks("", PAGE) for line in text.splitlines() if line]


def run(arguments):
    """What a command of fedgrid prints, which ends well; `go` becomes another process."""
    command = [sys.executable, "-m", "fedgrid.cli.main", *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.full
def test_a_study_of_things_from_outside(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    run(["init", "."])
    (_, _), (_, stations), (_, theirs) = blocks("text", PAGE)
    random = np.random.default_rng(0)
    take_pictures(random)
    write_stations(random, stations.splitlines()[0])
    Path("theirs.csv").write_text(theirs)
    ((_, network),), ((_, study),) = blocks("python", PAGE), blocks("yaml", PAGE)
    Path("net.py").write_text(network)
    Path("config/study.yaml").write_text(study)

    *until_open, opening = commands()
    printed = {arguments[0]: run(arguments) for arguments in until_open}
    assert "240 train, 0 validation, 60 test" in printed["import-partition"]
    assert "6 to run" in printed["plan"] and "theirs.csv" in printed["plan"]

    table = Path("results/birds/tables/accuracy.md").read_text()
    assert "Their method (external)" in table and "59.50" in table
    assert "imported from stations.csv" in table and "external results (theirs.csv" in table
    with open("scores.csv", newline="") as file:
        scores = list(csv.DictReader(file))
    right = sum(Path(row["file"]).parent.name == row["class"] for row in scores)
    assert len(scores) == 60 and right > 30  # of three classes

    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    shutil.copy(here / "birds.zip", elsewhere)
    run(opening)
    shutil.copytree(here / "birds", "birds")
    assert "6 cells, 6 cached, 0 to run" in run(["plan"])
    run(["go", "--cores", "1"])
    assert Path("results/birds/tables/accuracy.md").read_text() == table
