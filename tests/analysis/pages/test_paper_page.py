"""The page of a paper, made from synthetic experiments."""

import html
import math
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from toys import Study, adoption

from benchmarks.papers import write_page
from fedgrid.analysis.figures.common import embedding, style
from fedgrid.analysis.figures.common.embedding import PAGE_IMAGE_BYTES, Picture, within
from fedgrid.analysis.pages.build import from_manifest
from fedgrid.analysis.pages.paper import main
from fedgrid.analysis.pages.paper_section import planned_figures, undrawn
from fedgrid.analysis.papers.overview import Overview, agreed
from fedgrid.files import read_table, write_json, write_table

YAML = """
title: A paper
published: mine.csv
assumed: {training.lr: "Not stated. Taken: 0.1."}
experiments:
  table1: {title: All methods.}
  table2: {title: "Another <table>.", source: Table 2}
  later: {title: Attacks., lacks: No attacks yet}
"""
HEADER = "experiment,row,data,heterogeneity,domain,metric,value,std,corrected,rank,note\n"
NOT_AT_HAND = "'emnist' is not at hand; put it under data_root"


def table1(folder):
    """Three methods and three seeds on two data sets, of which one is not at hand; FedAvg's seeds differ widely."""
    study = Study(
        folder,
        name="paper/table1",
        paper="A paper",
        title="All methods.",
        source="Table I",
        seeds=[0, 1, 2],
        data={"digits": "Digits", "emnist": "EMNIST"},
        described={"dir": "Dirichlet β=0.1, 2 clients"},
        show=[{"table": "accuracy", "ranks": True}, {"figure": "curves"}, {"figure": "tsne"}],
        claims=[
            {"says": "Ditto is above Local.", "above": ["Ditto", "Local"]},
            {"says": "Local is above Ditto.", "above": ["Local", "Ditto"]},
            {"says": "Ditto leads.", "leads": "Ditto"},
            {"says": "Ditto is a joy."},
        ],
        assumed={"training.lr": "Not stated. Taken: 0.1.", "training.rounds": "Not stated here. Taken: 2."},
    )
    for n, label in enumerate(("local", "fedavg", "ditto")):
        study.method(label, title=label.capitalize() if label != "fedavg" else "FedAvg")
        for seed, noise in enumerate((0.3, -0.1, 0.25)):
            own = noise if label == "fedavg" else 0.01 * seed * n
            study.cell(label, "dir", seed, {0: [0.1, 0.1], 1: [0.2 + 0.2 * n, 0.3 + 0.2 * n + own]})
            if label == "fedavg":
                study.without(label, "dir", seed, NOT_AT_HAND, data="emnist")
    for row, value in (("Local", "20"), ("FedAvg", "70"), ("Ditto", "60"), ("MOON", "1")):
        study.prints(row, value)
    return study


def later(folder):
    study = Study(folder, name="paper/later", paper="A paper", title="Attacks.", lacks="No attacks yet", show=[])
    study.method("local", title="Local")
    return study


def made(study):
    """All that a run makes of one experiment."""
    file = study.folder / "manifest-0.json"
    study.folder.mkdir(parents=True, exist_ok=True)
    write_json(file, study.content)
    from_manifest(file, "paper.yaml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of a paper, of which two experiments were run."""
    folder = tmp_path_factory.mktemp("paper")
    (folder / "paper.yaml").write_text(YAML)
    (folder / "mine.csv").write_text(HEADER)
    place = 'Digits,"Dirichlet β=0.1, 2 clients",,accuracy'
    other = [f"t,{row},{place},{value},,,," for row, value in (("Local", "20"), ("FedAvg", "60"), ("Ditto", "70"))]
    (folder / "theirs.csv").write_text(HEADER + "\n".join(other))
    (folder / "theirs.yaml").write_text('title: "Theirs: another paper"')
    (folder / "unrelated.csv").write_text("a,b\n1,2\n")
    for one in (table1(folder / "paper/table1"), later(folder / "paper/later")):
        made(one)
    return folder


@pytest.fixture
def new(folder, tmp_path):
    """A copy of these files."""
    return Path(shutil.copytree(folder, tmp_path / "new"))


def written(folder):
    """The page, and what a reader sees of it."""
    out = folder / "paper/report.html"
    names = [str(folder / "paper" / name / "manifest-0.json") for name in ("table1", "table2", "later")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*names, str(out), "--configfile", "paper.yaml"]) == 0
    page = out.read_text(encoding="utf-8")
    body = page.partition("<body>")[2]
    return page, " ".join(html.unescape(re.sub("<[^>]+>", " ", body)).split())


@pytest.fixture(scope="module")
def page(folder):
    return written(folder)


def section(page, name):
    return re.search(rf'<section class="experiment" id="x-{name}">(.*?)</section>', page[0], re.S)[1]


def test_the_answer_comes_first(page):
    output = page[1]
    assert output.startswith(
        "A paper Study paper : 3 experiments Ditto is reported to lead in Table I. Here no lead is significant: Ditto "
        "is ahead on Digits (Dirichlet β=0.1, 2 clients) by 13.50 points; one of two columns has too few results to "
        "compare. So the claim is neither confirmed nor refuted. All methods Table I · 9 of 12 cells, "
    )
    assert output.index("66.00 ± 1.00") < output.index("Regenerated")
    for sentence in (
        "1 of 3 experiments has results: 9 of 12 cells, at full scale, seeds 0, 1 and 2.",
        "3 of the paper’s 4 claims can be checked here: 1 confirmed, 1 refuted and 1 inconclusive.",
        "with a Kendall τ of 0.33, in the only column; between one seed of ours and the others it is 1.00.",
        "Theirs also prints 1 of these columns; its τ with this paper is 0.33.",
        "Not run: table2; cannot be expressed in a study yet: later; 3 cells need data that are not available.",
    ):
        assert sentence in output and output.index(sentence) < output.index("Protocol"), sentence


def test_every_experiment_that_was_run_has_one_line_and_all_others_share_one(page):
    (index,) = re.findall(r'<table class="words index">(.*?)</table>', page[0], re.S)
    rows = [re.sub("<[^>]+>", " ", row).split() for row in re.findall("<tr>(.*?)</tr>", index, re.S)[1:]]
    assert [row[0] for row in rows] == ["table1", "later"]
    first, second = (" ".join(row) for row in rows)
    assert "All methods Table I ✓ 1 ✗ 1 ? 1 – 1 0.33 (seeds: 1.00) 9 of 12 3 are not available" in first
    assert second.endswith("cannot be run yet")
    others = (
        "<summary>1 experiment was not run</summary><ul><li><code>table2</code> Another &lt;table&gt; (Table 2)</li>"
    )
    assert others in page[0] and 'id="x-table2"' not in page[0] and '<a href="table2' not in page[0]


def test_an_experiment_shows_its_table_what_is_missing_and_what_became_of_claims(page):
    actual = section(page, "table1")
    assert "<h2>All methods</h2>" in actual and 'href="table1/report.html"' in actual
    assert 'The table is <a href="#found">at the top' in actual and "<sup>①</sup>" not in actual
    assert f"3 cells unavailable: {NOT_AT_HAND}" in html.unescape(actual)
    assert actual.count('<img src="data:image/svg+xml;base64,') == 2  # Ditto is claimed to lead: the rest grey or not
    assert "Figure (tsne): Nothing is drawn, because no cell of seed 0 has kept its representations" in actual
    fates = re.findall(r'<li><span class="verdict (\w+)">[^<]*</span> ([^\n]*)', actual)
    assert [fate for fate, _ in fates] == ["confirmed", "refuted", "inconclusive", "unchecked"]
    assert "β=0.1, 2 clients: Ditto 66.00, Local 25.00: +41.00 points (95 % CI " in html.unescape(actual)
    assert "Printed numbers beside ours" in actual and "there is no row &#39;MOON&#39; here" in actual
    assert re.search(r"<td>Theirs</td>\s*<td>3</td>\s*<td>1</td>", actual)
    assert "Not stated here." in actual and "Not stated. Taken" not in actual


def test_other_scales_stand_beside_the_printed_numbers(folder, tmp_path):
    """Those of this study alone, in the order of its file, and the full one last."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "paper.yaml").write_text(YAML + "scales: {small: {}, half: {}}\n")
    for scale in ("half", "small"):
        other = Study(tmp_path / f"paper-{scale}/table1", name=f"paper-{scale}/table1", scale=scale, seeds=[0])
        other.method("ditto", title="Ditto")
        made(other.in_column({"ditto": [0.5 if scale == "half" else 0.25]}))
    stranger = Study(tmp_path / "paper-two/table1", name="paper-two/table1", seeds=[0])
    made(stranger.in_column({"ditto": [0.125]}))
    actual = written(tmp_path)[0]
    (table,) = (table for table in re.findall("<table.*?</table>", actual, re.S) if "small (1 seed)" in table)
    assert re.findall("<th[^>]*>([^<]*seeds?[^<]*)</th>", table) == [
        "small (1 seed)",
        "half (1 seed)",
        "full (3 seeds)",
    ]
    ditto = re.findall(r"<td[^>]*>\s*([^<]*?)\s*</td>", table.partition("Ditto")[2])
    assert ditto[:4] == ["60", "25.00", "50.00", "66.00 ± 1.00"]
    assert "small (1 seed)" not in written(folder)[0]


def test_what_cannot_run_is_named(page):
    assert '<p class="lacks">No attacks yet</p>' in section(page, "later")


def test_a_number_opens_its_seeds_files_and_command(page):
    assert '<button popovertarget="n-table1-3"><em>66.00 ± 1.00</em></button><sup>①</sup>' in page[0]
    (opened,) = re.findall(r'<div popover id="n-table1-3" class="number">(.*?)</div>', page[0], re.S)
    text = " ".join(html.unescape(re.sub("<[^>]+>", " ", opened)).split())
    assert text == (
        "Ditto: Digits, Dirichlet β=0.1, 2 clients 66.00 ± 1.00 seed 0: 65.00 % 0000000000000009.parquet "
        "seed 1: 66.00 % 000000000000000a.parquet seed 2: 67.00 % 000000000000000b.parquet "
        "fedgrid explain --configfile paper.yaml table1 Ditto Digits dir"
    )
    assert "delete its file and run <code>snakemake --cores all --configfile paper.yaml --config only=table1" in page[0]
    (unavailable,) = re.findall(r'<div popover id="n-table1-2" class="number">(.*?)</div>', page[0], re.S)
    assert "seed 2: unavailable" in unavailable and "<a" not in unavailable


def test_all_links_lead_somewhere(folder, page):
    assert dead_links(folder / "paper/report.html") == []
    parquet = re.findall(r'href="([^"]+\.parquet)"', page[0])
    assert len(parquet) == 9 and not any(Path(link).is_absolute() for link in parquet)


def test_a_kept_page_has_no_links_to_files_that_are_not_kept(folder, tmp_path):
    write_page(folder / "paper/report.html", tmp_path / "report.html")
    kept = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert dead_links(tmp_path / "report.html") == [] and "its own page" not in kept
    assert '<a href="#x-table1">' in kept and "seed 1: 66.00 % 000000000000000a.parquet" in kept


COMMITTED = sorted(Path(__file__).parents[3].glob("benchmarks/results/**/*.html"))


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: file.parent.name)
def test_all_links_of_committed_pages_lead_somewhere(file):
    assert dead_links(file) == []


def dead_links(file):
    """The links of a page to places in it, and to files, that do not exist."""
    text = file.read_text(encoding="utf-8")
    ids = set(re.findall(r' id="([^"]+)"', text))
    links = [html.unescape(link) for link in re.findall(r'(?:href|src|srcset|popovertarget)="([^"]*)"', text)]
    anchors = re.findall(r'popovertarget="([^"]*)"', text)
    return [
        link
        for link in links
        if not link.startswith("data:")
        and not (link[1:] in ids if link.startswith("#") else link in anchors or (file.parent / link).is_file())
    ] + [anchor for anchor in anchors if anchor not in ids]


def test_protocol_assumptions_and_how_to_regenerate(page):
    text, output = page
    assert text.count("Not stated. Taken: 0.1.") == 2  # assumed of the whole paper, and in the study's own text
    assert "snakemake --cores all --configfile paper.yaml" in output
    assert "optimizer.lr" in output and "4 cells" not in output


def test_the_page_is_small_and_asks_for_nothing(page):
    text = page[0]
    assert not re.search(r"https?://|<script|<link|@import|url\(", text) and len(text) < 3_000_000
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in re.findall(r'href="(#[^"]+)"', text)} <= set(ids)


def test_without_any_results_the_page_says_so(folder, tmp_path):
    shutil.copytree(folder, tmp_path, ignore=shutil.ignore_patterns("results.parquet"), dirs_exist_ok=True)
    output = written(tmp_path)[1]
    assert "None of 3 experiments has results yet. Agreement No claim is checked yet." in output
    assert "Not run: table1, table2, later" in output


def another_manifest_is_wanted(folder):
    (folder / "manifest-0.json").rename(folder / "manifest-1.json")


def the_manifest_was_replaced(folder):
    """As by a run that was killed before it made the tables anew."""
    another_manifest_is_wanted(folder)
    shutil.copyfile(folder / "manifest-1.json", folder / "manifest-0.json")
    from_manifest(folder / "manifest-1.json", "paper.yaml")


def the_page_was_not_reached(folder):
    (folder / "report.html").unlink()


def results_are_of_an_earlier_release(folder):
    table, head = read_table(folder / "results.parquet")
    write_table(folder / "results.parquet", table, {name: head[name] for name in ("study", "cells", "published")})


@pytest.mark.parametrize(
    "change",
    [
        another_manifest_is_wanted,
        the_manifest_was_replaced,
        the_page_was_not_reached,
        results_are_of_an_earlier_release,
    ],
)
def test_results_of_another_manifest_are_not_shown(new, change):
    change(new / "paper/table1")
    page = written(new)
    output = page[1]
    assert "None of 3 experiments has results yet; 1 is out of date. Agreement No claim is checked yet." in output
    assert "No column of printed numbers can be compared with an order of ours." in output
    assert "Out of date: table1; not run: table2; cannot be expressed in a study yet: later." in output
    assert "No experiment has cells with results that are up to date." in output
    shown = section(page, "table1")
    assert "<h2>All methods</h2>" in shown and "<code>table1</code> · out of date" in shown
    command = "snakemake --cores all --configfile paper.yaml --config only=table1"
    assert f"Its results are out of date and are not shown; <code>{command}</code> regenerates them." in shown
    assert not re.search("<table|<img|<details|Ditto|its own page", shown)


def test_out_of_date_results_enter_no_sum(new):
    study = table1(new / "paper/table2")
    study.study |= {"name": "paper/table2", "scale": "small", "protocol": {"rounds": 9}}
    made(study)
    another_manifest_is_wanted(new / "paper/table2")
    output = written(new)[1]
    assert "1 of 3 experiments has results: 9 of 12 cells, at full scale, seeds 0, 1 and 2; 1 is out of date." in output
    assert "3 of the paper’s 4 claims can be checked" in output and "What differs between experiments" not in output


@pytest.mark.full
def test_differences_between_experiments(new):
    study = table1(new / "paper/table2")
    study.study |= {
        "name": "paper/table2",
        "scale": "small",
        "protocol": {"rounds": 5, "optimizer": {"name": "sgd", "lr": 0.1}},
    }
    study.study["elsewhere"] = [{"columns": [["emnist", "dir"]], "protocol": {"rounds": 7}, "model": None}]
    made(study)
    text, output = written(new)
    differing = re.search(r'<table class="words differing">(.*?)</table>', text, re.S)[1]
    rows = re.findall(r"<td>([^<]*)</td><td>([^<]*)</td>", differing)
    assert ("2", "table1") in rows and ("5", "table2") in rows
    assert ("7", "table2 (EMNIST, Dirichlet β=0.1, 2 clients)") in rows and len(rows) == 3
    assert "optimizer.lr" in output and "What is the same in all of them" in output


@pytest.mark.full
def test_adopted_cells_of_all_experiments_are_counted_once(page, new):
    assert "adopted" not in page[1]
    for name in ("table1", "table2"):
        study = table1(new / "paper" / name)
        study.study |= {"name": f"paper/{name}", "seeds": [0, 1, 2, 3]}
        entry = adoption("1" * 16, "2027-07-01T10:00:00")
        study.cell("local", "dir", 3, {1: [0.2, 0.3]}, code="2" * 16, adopted=[entry])
        made(study)
    text, _ = written(new)
    sentence = (
        "1 of 10 finished cells was adopted from earlier code (fedgrid 0.1). As a check, 2 of the 6 cells of its "
    )
    assert all(sentence in section([text], name) for name in ("table1", "table2"))
    provenance = text.partition('id="origin"')[2]
    assert f"<p>{sentence}" in provenance
    assert provenance.count("<li>local: 1 cell of code 11111111 → 22222222, checked on 2 of 6 cells") == 1


def test_pages_take_points_in_place_of_a_large_drawing_and_leave_out_what_has_no_room(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    monkeypatch.setattr(style, "LARGEST_DRAWING", 100)
    with style.drawing():
        figure = Figure(figsize=(2, 1))
        (line,) = figure.subplots().plot([1, 2])
        monkeypatch.setattr(style, "DPI", 1000)
        style.save(figure, tmp_path / "f", "A figure", "Its caption")
        assert embedding.picture(tmp_path / "f.svg").uri.startswith("data:image/svg")  # which is smaller here
        monkeypatch.setattr(style, "DPI", 20)
        line.set_data(range(999), [i % 7 for i in range(999)])
        style.save(figure, tmp_path / "f", "A figure", "Its caption")
    actual = embedding.picture(tmp_path / "f.svg")
    assert actual.uri.startswith("data:image/png;base64,")
    one = Picture("", "", "", "x" * (PAGE_IMAGE_BYTES // 2), "")
    assert [bool(kept.uri) for kept in within([one, one, one], PAGE_IMAGE_BYTES)] == [True, True, False]


def test_second_images_take_what_room_the_first_ones_leave():
    quarter = "x" * (PAGE_IMAGE_BYTES // 4)
    one = Picture("", "", "", quarter, "", quarter, "")
    for pictures, coloured in (([one, one], [True, True]), ([one] * 3, [True, False, False]), ([one] * 4, [False] * 4)):
        fitted = within(pictures, PAGE_IMAGE_BYTES)
        assert all(picture.uri for picture in fitted) and [bool(kept.coloured) for kept in fitted] == coloured


def test_only_figures_that_the_study_shows_are_on_the_page(toy):
    toy.study["show"] = [{"figure": "curves"}, {"figure": "trust"}]
    figures = planned_figures(toy.load(), toy.folder)
    assert figures == {kind: [toy.folder / "figures" / f"{kind}-digits.svg"] for kind in ("curves", "trust")}
    (toy.folder / "figures").mkdir(exist_ok=True)
    for name in ("curves-digits.svg", "curves-digits.narrow.svg", "trust-renamed.svg"):
        (toy.folder / "figures" / name).touch()
    assert undrawn("curves", figures["curves"]) == []
    assert undrawn("trust", figures["trust"]) == ["No results for this figure (trust)."]
    (toy.folder / "figures/trust-digits.txt").write_text("No method records a trust.\n")
    assert undrawn("trust", figures["trust"]) == ["Figure (trust): No method records a trust."]


def test_a_column_of_many_rows_says_more_about_orders_than_one_of_two():
    def actual(name, rows, tau, between, metric="accuracy"):
        columns = {"metric": metric, "rows": rows, "tau": tau, "between_seeds": between}
        return Overview(name, Path(name), name, agreement=pd.DataFrame(columns))

    nan = float("nan")
    experiments = [
        actual("a", [5, 3], [0.8, -1.0], [nan, nan]),
        actual("b", [3, 2, 1], [-1.0, 1.0, nan], [1.0, 1.0, nan]),
        actual("c", [5], [0.1], [0.1], "std_clients"),
    ]
    order = agreed(experiments)
    assert (order.tau, order.columns) == (pytest.approx((10 * 0.8 - 3 - 3) / 16), 3)
    assert (order.tau_of_several, order.columns_of_several, order.between_seeds) == (-1.0, 1, 1.0)
    nothing = agreed([])
    assert nothing.columns == 0 and math.isnan(nothing.tau) and math.isnan(nothing.between_seeds)
