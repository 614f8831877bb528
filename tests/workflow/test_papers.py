"""A paper through Snakemake: what is made of it, and what an edit makes anew."""

import re
import shutil
import tarfile
from pathlib import Path

import pandas as pd
import pytest
from forked import Forked
from papers import PAPER, PRINTED
from tiers import every_third

from benchmarks.papers import agreement, claims, keep_cells, keep_pages, verdicts
from fedgrid.api.study_file import read_study

ONE = {"manifest": 1, "experiment": 1, "paper": 1}
"What hangs on one experiment."
FOLDER = "results/toy-small"
COLUMNS = [
    f"digits, {words}, {number}"
    for words in ("Dirichlet 0.5", "3 classes")
    for number in ("Acc. (%)", "Std. over clients (%)")
]
TABLE = f"""\
| Method | {" | ".join(COLUMNS)} |
| --- | ---: | ---: | ---: | ---: |
| Local | N A | N A | N A | N A |
| FedAvg | N A | N A | N A | N A |
| FedCoSR | N A | N A | N A | N A |
| Averaged | N | N | N | N |"""
"The accuracy table with N for numbers and A for arrows; see `form`."


@pytest.fixture(scope="module")
def finished(tmp_path_factory, forker):
    """A tree in which the paper was run, but for a data set that is not at hand."""
    checkout = Forked(tmp_path_factory.mktemp("finished") / "tree", f"{PAPER}scale: small\n")
    (checkout.path / "config/paper.csv").write_text(PRINTED)
    checkout.snakemake()
    return checkout


def text(checkout, file):
    return (checkout.path / FOLDER / file).read_text(encoding="utf-8")


def test_everything_is_made_once(finished):
    experiments = ("table1", "sweep", "letters", "settings", "later")
    for name in experiments:
        assert (finished.path / FOLDER / name / "results.parquet").is_file()
        assert f'id="x-{name}"' in text(finished, "report.html")
    assert "3 of 5 experiments have results (1 more needs no cells)" in text(finished, "report.html")
    assert {cell.stem.split(".")[0].split("-")[0] for cell in finished.cells()} == {"s0"}
    assert finished.planned() == {}


def test_results_at_another_scale_make_the_page_anew(checkout):
    """It shows them beside its own."""
    shutil.copytree(checkout.path / FOLDER / "table1", checkout.path / "results/toy-half/table1")
    assert checkout.planned() == {"paper": 1}


def test_the_form_of_the_accuracy_table(finished):
    caption, table, *notes = text(finished, "table1/tables/accuracy.md").split("\n\n")
    assert caption.startswith("Accuracy in two settings: test accuracy on the clients' own test images, over one seed")
    assert not notes
    marks = re.findall("<sup>(.*?)</sup>", table)
    assert len(marks) == 12 and set(marks) <= {"①", "②", "③"}  # three rows are ranked in each of four columns
    assert form(table).strip() == TABLE


def form(table):
    """A table without what depends on the processor: numbers, and which of them is the better one."""
    unmarked = re.sub("<sup>.*?</sup>|_", "", table)
    return re.sub(" [↑↓]", " A", re.sub(r"\d+\.\d\d", "N", unmarked))


def test_an_unavailable_data_set_is_a_dash_with_its_reason(finished):
    table = text(finished, "letters/tables/accuracy.md")
    assert re.search(r"^\| Local \| _?[\d.]+_? \| –<sup>a</sup> \|$", table, re.M)
    assert "<sup>a</sup> unavailable: 'emnist' is not at hand" in table
    assert "2 cells need data that are not available" in text(finished, "report.html")


@pytest.mark.parametrize(
    ("method", "place", "experiments"),
    [
        pytest.param("fedcosr", "pathological", 1, marks=pytest.mark.full),
        ("fedavg", "dirichlet", 2),  # letters shows it too
    ],
)
def test_a_deleted_cell_is_made_again_with_all_that_shows_it(checkout, method, place, experiments):
    (cell,) = [cell for cell in checkout.cells() if method in cell.parts and cell.parent.name.startswith(place)]
    cell.unlink()
    expected = {method: 1, "manifest": experiments, "experiment": experiments, "paper": 1}
    assert checkout.planned() == expected


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    every_third(
        [
            ("config/paper.csv", "95.50", "96.50", ONE),
            ("config/study.yaml", "Accuracy in two settings.", "Two settings.", ONE),
            ("config/study.yaml", "FedCoSR leads.", "FedCoSR is best.", ONE),
            ("config/study.yaml", "Taken: 4.", "Taken: a few.", {"manifest": 5, "experiment": 5, "paper": 1}),
            ("src/fedgrid/analysis/papers/headline.py", '"Nothing."', '"No thing."', {"paper": 1}),
        ],
        several=True,
    ),
)
def test_words_and_printed_numbers_train_nothing(checkout, file, old, new, expected):
    checkout.edit(file, old, new)
    assert checkout.planned() == expected


@pytest.mark.full
def test_the_page_shows_nothing_of_an_experiment_that_was_edited_and_not_run(checkout):
    checkout.edit("config/study.yaml", "FedCoSR leads.", "FedCoSR is best.")
    checkout.edit(
        "config/study.yaml", "[local, fedavg, fedcosr]\n", "[local, fedavg, fedcosr]\n    training: {lr: 0.02}\n"
    )
    checkout.edit("config/paper.csv", "95.50", "96.50")
    assert checkout.planned("--config", "only=sweep") == {"paper": 1}
    checkout.snakemake("--config", "only=sweep")
    page = text(checkout, "report.html")
    assert "2 of 5 experiments have results (1 more needs no cells): " in page and "seed 0; 1 is out of date." in page
    assert "No claim is checked yet." in page and "No column of printed numbers can be compared" in page
    assert "FedCoSR leads." not in page
    shown = section(page, "table1")
    assert "Its results are out of date and are not shown" in shown
    assert "--config scale=small only=table1</code> regenerates them" in shown
    assert not re.search(r"\d\d\.\d\d|<table|<img|its own page", shown)
    checkout.snakemake()
    page = text(checkout, "report.html")
    assert "3 of 5 experiments have results (1 more needs no cells): " in page
    shown = section(page, "table1")
    assert "FedCoSR is best." in shown and "96.50" in shown and "out of date" not in shown


def section(page, name):
    return re.search(rf'<section class="experiment" id="x-{name}">(.*?)</section>', page, re.S)[1]


@pytest.mark.full
def test_a_run_is_kept_and_its_cells_are_not_trained_elsewhere(checkout, monkeypatch):
    monkeypatch.chdir(checkout.path)
    out = checkout.path / "kept/small"
    archives = checkout.path / "archives"
    keep_pages(Path("results"), out)
    keep_cells([read_study(Path("config/study.yaml"))], archives)
    assert "table1" in set(pd.read_csv(out / "toy/accuracy.csv")["folder"])
    page = (out / "toy/report.html").read_text(encoding="utf-8")
    assert "<source media" not in page and 'src="data:image/svg+xml;base64,' in page
    listed = pd.read_csv(archives / "cells.csv", dtype={"key": "str"})
    cells = {cell.stem.split("-")[1]: cell.read_bytes() for cell in checkout.cells() if "clusters" not in cell.stem}
    assert set(listed["key"]) == cells.keys()
    shared = listed[(listed["method"] == "fedavg") & (listed["heterogeneity"] == "Dirichlet 0.5")]
    assert shared["experiments"].tolist() == ["toy/letters toy/table1"]
    assert claims(out).loc["toy"].sum() == len(verdicts(out)) == 1 and agreement(out).loc["toy", "columns"] == 1
    shutil.rmtree(checkout.path / "results")
    for file in archives.glob("*/*.tar.xz"):
        with tarfile.open(file) as archive:
            archive.extractall(checkout.path, filter="data")
    assert {
        cell.stem.split("-")[1]: cell.read_bytes() for cell in checkout.cells() if "clusters" not in cell.stem
    } == cells
    planned = checkout.planned()
    assert not planned.keys() & set(listed["method"]) and planned["experiment"] == 5
    checkout.snakemake()
    assert "3 of 5 experiments have results" in text(checkout, "report.html")


@pytest.mark.full
def test_the_page_of_some_experiments_lists_the_others(checkout):
    assert checkout.planned("--config", "only=sweep", "name=other") == ONE
    checkout.snakemake("--config", "only=sweep", "name=other")
    page = (checkout.path / "results/other-small/report.html").read_text(encoding="utf-8")
    assert "Not run: table1, letters, settings, later" in page and 'href="sweep/report.html"' in page
