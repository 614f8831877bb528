"""The report of a study whose cells are not all finished."""

import pandas as pd
import pytest
from toys import draw_figure

from fedgrid.analysis.pages import build, partial
from fedgrid.analysis.pages.table_set import write_tables
from fedgrid.analysis.scores.results import load
from fedgrid.analysis.scores.summary import summary
from fedgrid.files import read_table

KILLED = "was killed, by the system for lack of memory or by hand (it held 900 MB), in round 1 of 2"


def without(study, states):
    """The manifest of a study without those cells that `states` names: (label, heterogeneity, seed) → status."""
    named = {(cell["label"], cell["heterogeneity"], cell["seed"]): cell["key"] for cell in study.cells}
    reasons = {"failed": KILLED}
    return study.manifest.without({named[name]: (why, reasons.get(why, "")) for name, why in states.items()})


SOME = {
    ("local", "dir", 0): "failed",
    ("fedavg", "dir", 1): "running",
    ("fedavg", "dir", 2): "queued",
    ("fedavg", "hom", 0): "missing",
    ("fedavg", "hom", 1): "missing",
    ("fedavg", "hom", 2): "failed",
    ("ditto", "hom", 0): "missing",
    ("ditto w/o pull", "dir", 0): "queued",
    ("ditto w/o pull", "dir", 1): "queued",
    ("ditto w/o pull", "dir", 2): "missing",
}


def made(study, states, name="partial"):
    """The folder `name` with the partial report of a study without some cells."""
    with partial.made_anew(study.folder / name) as folder:
        build.write(without(study, states), folder, "config/study.yaml")
    return study.folder / name


@pytest.fixture(scope="module")
def beside(common_ablated):
    """Files beside the report, as they were before it was made: when they were written, and their bytes."""
    folder = common_ablated.folder
    write_tables(common_ablated.load(), folder / "tables")
    (folder / "report.html").write_text("finished")
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def folder(common_ablated, beside):
    """The report without the cells of `SOME`."""
    return made(common_ablated, SOME)


def content(folder):
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_entries_say_what_they_lack(folder):
    table = summary(load(folder / "results.parquet")).set_index(["label", "heterogeneity"])
    expected = {
        ("local", "dir"): ("partial", 2, 1),
        ("local", "hom"): ("missing", 0, 0),
        ("fedavg", "dir"): ("partial", 1, 0),
        ("fedavg", "hom"): ("failed", 0, 1),
        ("ditto", "dir"): ("ok", 3, 0),
        ("ditto", "hom"): ("diverged", 1, 1),
        ("ditto w/o pull", "dir"): ("unfinished", 0, 0),
    }
    for entry, values in expected.items():
        assert tuple(table.loc[entry, ["status", "seeds", "seeds_failed"]]) == values, entry
    assert table.loc[("local", "dir"), "accuracy"] == pytest.approx((0.555 + 0.56) / 2)
    assert table["rank"].dropna().to_dict() == {("ditto", "dir"): 1}
    assert pd.isna(table.loc[("ditto w/o pull", "dir"), "score"])


def test_printed_entries_and_their_notes(folder):
    text = (folder / "tables/accuracy.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in text.splitlines()}
    assert rows["Local"] == ["55.75 ± 0.35<sup>a</sup>", "5.75", "–", "–"]
    assert rows["FedAvg"] == ["45.00 ± –<sup>b</sup>", "5.00", "–<sup>c</sup>", "–"]
    assert rows["ditto w/o pull"] == ["–", "–", "–", "–"]
    assert rows["Ditto"][2:] == ["diverged<sup>d</sup>", "–"]
    assert f"<sup>a</sup> over 2 of 3 seeds; seed 0 failed: {KILLED}." in text
    assert "<sup>b</sup> over 1 of 3 seeds." in text
    assert f"<sup>c</sup> seed 2 failed: {KILLED}." in text
    assert text.startswith("Toy study (unfinished: 8 of 18 cells): test accuracy")
    assert "Marks and bold compare only entries of which every seed is finished." in text
    assert "A dash stands for what is not finished or does not exist." in text


def test_figures_say_what_they_lack(folder):
    drawn = folder / "figures"
    assert {file.stem for file in drawn.iterdir()} == {"curves-digits", "curves-digits.narrow", "ablation-ditto-digits"}
    text = (drawn / "curves-digits.txt").read_text()
    assert "Not drawn, because a seed diverged or nothing was scored: homogeneous, 2 clients: Ditto." in text
    none = "Dirichlet β=0.1, 2 clients: ditto w/o pull; homogeneous, 2 clients: FedAvg."
    assert f"Not drawn, because no seed is finished: {none}" in text
    assert "Drawn from fewer seeds: Dirichlet β=0.1, 2 clients: Local (2 of 3) and FedAvg (1 of 3)." in text
    text = (drawn / "ablation-ditto-digits.txt").read_text()
    assert "Not drawn, because no seed is finished: Dirichlet β=0.1, 2 clients: ditto w/o pull." in text


def test_the_page_says_that_it_is_unfinished_and_why_cells_failed(folder):
    page = (folder / "report.html").read_text()
    far = "8 of 18 cells are finished (1 diverged); 2 failed, 1 is running, 3 are queued, 4 have not been started."
    assert page.count(far) == 2 and "<title>Toy study (unfinished)</title>" in page
    failures = page[page.index('<section id="failures">') :]
    assert failures.count("<td>failed</td>") == failures.count(f"<td>failed</td><td>{KILLED}") == 2
    assert failures.count("<td>diverged</td>") == 1
    assert not any(f"<td>{status}</td>" in failures for status in ("missing", "queued", "running"))
    assert "8 of 8 finished cells" in page


@pytest.mark.full
def test_a_page_without_failures_says_so(ablated):
    page = (made(ablated, {("local", "dir", 0): "running"}) / "report.html").read_text()
    assert "17 of 18 cells are finished (1 diverged); 1 is running." in page
    page = (made(ablated, {("ditto", "hom", 2): "queued"}) / "report.html").read_text()
    assert "<p>None so far.</p>\n<p>17 of 18 cells are finished; 1 is queued.</p>" in page


def test_only_diverged_cells_are_a_report_too(make_study):
    study = make_study()
    for seed in range(3):
        study.cell("m", "dir", seed, {0: [0.1, 0.1]}, status="diverged", reason="the loss is not finite")
    build.write(without(study, {("m", "dir", 0): "missing"}), study.folder / "partial", "x.yaml")
    text = (study.folder / "partial/tables/accuracy.md").read_text()
    assert "seeds 1 and 2 diverged: the loss is not finite." in text


@pytest.mark.full
def test_a_data_set_without_any_finished_cell_has_no_curves(toy):
    toy.study["data"]["letters"] = "Letters"
    for seed in range(3):
        toy.cell("local", "dir", seed, {2: [0.5, 0.5]}, data="letters")
    absent = {cell["key"]: ("missing", "") for cell in toy.cells if cell["data"] == "letters"}
    build.write(toy.manifest.without(absent), toy.folder / "partial", "x.yaml")
    assert {file.name for file in (toy.folder / "partial/figures").glob("*.pdf")} == {"curves-digits.pdf"}
    results = load(toy.folder / "partial/results.parquet")
    draw_figure("curves", results, "letters")  # asked for all the same, it is empty


@pytest.mark.full
def test_twice_the_same_bytes_and_nothing_of_an_earlier_one(common_ablated, folder):
    first = content(folder)
    (folder / "figures/old.svg").write_text("of a data set that the study no longer has")
    assert content(made(common_ablated, SOME)) == first
    assert not list(common_ablated.folder.glob(".*"))


def test_files_beside_its_folder_are_left_alone(beside, folder):
    outside = [file for file in folder.parent.rglob("*") if file.is_file() and not file.is_relative_to(folder)]
    assert {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in outside} == beside


@pytest.mark.full
def test_with_all_cells_it_makes_what_the_workflow_makes(ablated):
    partly = made(ablated, {})
    ablated.results()
    folder = ablated.folder / "whole"
    folder.mkdir()
    (ablated.folder / "manifest.json").rename(folder / "manifest.json")
    assert build.main([str(folder / "manifest.json"), "--configfile", "config/study.yaml"]) == 0
    (folder / "manifest.json").unlink()
    (all_rows, head), (rows, partial_head) = (read_table(one / "results.parquet") for one in (folder, partly))
    assert (
        rows == all_rows and partial_head | {"manifest": "manifest.json"} == head
    )  # an unfinished study has no manifest
    for one in (folder, partly):
        (one / "results.parquet").unlink()
    assert content(folder) == content(partly)
