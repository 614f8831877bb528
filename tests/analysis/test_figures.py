import re

import pandas as pd
import pytest

from fedgrid.analysis.ablation import ablation, axis_floor
from fedgrid.analysis.bubbles import bubbles, read_counts
from fedgrid.analysis.curves import curves
from fedgrid.analysis.figures import main


@pytest.fixture
def partition(tmp_path):
    """Two clients and two classes; client 1 has no test data."""
    rows = [(0, "train", 0), (0, "train", 0), (0, "test", 1), (1, "train", 1)]
    frame = pd.DataFrame(rows, columns=["client", "split", "label"]).assign(index=range(4))
    frame.to_parquet(tmp_path / "partition.parquet")
    return tmp_path / "partition.parquet"


def draw(stem, *arguments):
    """Draw a figure and return its SVG, PDF and text as bytes."""
    assert main([arguments[0], str(arguments[1]), str(stem), *arguments[2:]]) == 0
    return [stem.with_suffix(suffix).read_bytes() for suffix in (".svg", ".pdf", ".txt")]


@pytest.fixture
def ablated(toy):
    """Give the toy study with a second variant of Ditto."""
    toy.method("ditto w/o pull", method="ditto", title="Ditto", lam=0.0)
    for seed in range(3):
        toy.cell("ditto w/o pull", "dir", seed, {2: [0.7, 0.72 + 0.01 * seed]})
    return toy


def test_every_figure_is_reproducible(ablated, partition, tmp_path):
    results = ablated.results()
    for arguments in (
        ("curves", results, "--data", "digits"),
        ("ablation", results, "--method", "ditto", "--data", "digits"),
        ("partition", partition, "--title", "Toy $partition$"),
    ):
        svg, pdf, text = draw(tmp_path / "one", *arguments)
        assert [svg, pdf, text] == draw(tmp_path / "two", *arguments)
        assert text.decode().count("\n\n") == 1
        assert svg.startswith(b"<?xml") and pdf.startswith(b"%PDF")
        assert not re.search(rb"<dc:date>|CreationDate", svg + pdf)


def test_captions(ablated, partition):
    results = ablated.load()
    _, title, caption = curves(results, "digits")
    assert title == "Learning curves on Digits"
    assert "bands: from the lowest to the highest seed" in caption
    assert "Not drawn, because a seed failed or nothing was scored: Ditto (homogeneous, 2 clients)." in caption
    _, _, caption = ablation(results, "ditto", "digits")
    assert "whiskers: ± sample standard deviation over seeds" in caption
    assert "The axis starts at 60 %, not at zero." in caption
    assert "FedAvg" not in caption
    _, title, caption = bubbles(partition, "Toy")
    assert title == "Toy" and "(3 in all)" in caption and "test samples (1)" in caption


def test_counts(partition):
    assert read_counts(partition).to_dict() == {
        "train": {(0, 0): 2, (0, 1): 0, (1, 1): 1},
        "test": {(0, 0): 0, (0, 1): 1, (1, 1): 0},
    }


@pytest.mark.parametrize(("accuracies", "floor"), [([0.1, 0.9], 0), ([0.82, 0.86], 80), ([0.5, 0.9], 30), ([], 0)])
def test_axis_floor(accuracies, floor):
    entries = pd.DataFrame({"accuracy": accuracies, "accuracy_std_seeds": [0.0] * len(accuracies)}, dtype=float)
    assert axis_floor(entries) == floor


def test_many_methods_and_odd_panels(make_study, tmp_path):
    words = {f"h{i}": f"level {i}" for i in range(4)}
    study = make_study(heterogeneity=words, seeds=[0])
    for i in range(20):
        study.method(f"m{i}", method="m")
    for slug in words:
        study.cell("m19", slug, 0, {0: [0.1, 0.1], 2: [0.5, 0.7]})
    text = draw(tmp_path / "c", "curves", study.results(), "--data", "digits")[2].decode()
    assert "Lines: one seed (0)." in text and "bands" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["curves", "--data", "digit"], "no data set 'digit'; did you mean 'digits'?"),
        (["ablation", "--data", "digits", "--method", "dito"], "no method 'dito'; did you mean 'ditto'?"),
        (["ablation", "--data", "digits", "--method", "local"], "only one variant of “local”"),
    ],
)
def test_mistakes_are_one_sentence(toy, tmp_path, capsys, arguments, message):
    assert main([arguments[0], str(toy.results()), str(tmp_path / "x"), *arguments[1:]]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not list(tmp_path.glob("x.*"))


def test_a_file_that_is_no_partition(toy, tmp_path, capsys):
    for path in (toy.results(), tmp_path / "none.parquet"):
        assert main(["partition", str(path), str(tmp_path / "x"), "--title", "T"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
