"""Components in files outside the package, on the command line and in Python."""

from pathlib import Path

import plugins
import pyarrow.parquet as pq
import pytest

import fedgrid
from fedgrid.files import read_metadata

OPTIONS = ["--data", "plug/noise.py", "--partition", "plug/kind.py", "--clients", "4", "--model", "plug/net.py"]
SETTINGS = ["--model-set", "hidden=4", "--model-set", "features=4", "--rounds", "1"]


@pytest.fixture
def plug(folder):
    return plugins.write(folder)


def test_a_cell_of_files_and_its_models(plug, output):
    output("run", "plug/mine.py", *OPTIONS, *SETTINGS, "--out", "a.parquet", "--artifacts", "models")
    spec = read_metadata(Path("a.parquet"))["spec"]
    assert [spec[kind]["name"] for kind in ("method", "model", "partition")] == ["mine", "net", "kind"]
    assert spec["partition"]["data"]["name"] == "noise"
    model = fedgrid.load_model("a.parquet")
    assert [*model.classes] == ["a", "b"]
    (plug / "helper.py").write_text("HALF = 0.5  # as before\n")
    assert model(pixels()).shape == (3, 2)
    output("run", "plug/mine.py", *OPTIONS, *SETTINGS, "--out", "b.parquet", "--partition-set", "validation=0.2")
    assert read_metadata(Path("b.parquet"))["spec"]["partition"]["settings"]["validation"] == 0.2


def pixels():
    import torch

    return torch.zeros(3, 1, 8, 8, dtype=torch.uint8)


def test_the_same_as_in_python_and_in_a_study(plug, output):
    output("run", "plug/mine.py", *OPTIONS, *SETTINGS)
    (file,) = Path("results/store/cells").rglob("*.parquet")
    table = pq.read_table(file)
    trained = fedgrid.train(
        "plug/mine.py",
        data="plug/noise.py",
        heterogeneity={"partition": "plug/kind.py", "clients": 4},
        model={"name": "plug/net.py", "hidden": 4, "features": 4},
        training={"rounds": 1},
    )
    assert trained.file.resolve() == file.resolve() and len(trained.values) == len(table)
    assert "2 cells, 1 cached" in output("plan", "--configfile", "study.yaml")


def test_a_comparison_takes_files(plug, output):
    output("compare", "plug/mine.py", "--data", "plug/noise.py", "--heterogeneity", "plug/kind.py:clients=4",
           "--model", "plug/net.py", "--against", "local", "--out", "plug/study.yaml")  # fmt: skip
    text = Path("plug/study.yaml").read_text()
    assert "partition: kind.py" in text and "model: net.py" in text and "noise.py" in text
    assert "plug/" not in text.split("name:", 1)[1]
