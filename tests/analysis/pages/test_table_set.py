import io
from csv import reader
from dataclasses import replace

import pandas as pd
import pytest
from toys import adoption

from fedgrid.analysis.pages.table_set import csv, write_tables
from fedgrid.analysis.prose import captions
from fedgrid.analysis.scores.results import CELL
from fedgrid.analysis.tables.common.grid import Entry, Grid, html, latex, markdown

OUTPUTS = [f"{name}.{form}" for name in ("accuracy", "costs") for form in ("csv", "md", "tex", "html")]


@pytest.fixture(scope="module")
def tables(common_toy):
    """Give the text of every table of the toy study."""
    return made(common_toy, common_toy.folder / "tables")


def made(study, folder):
    write_tables(study.load(), folder)
    return {name: (folder / name).read_text() for name in OUTPUTS}


def markdown_rows(text):
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line]
    return {row[0]: row for row in rows}


def test_printed_entries(tables):
    rows = markdown_rows(tables["accuracy.md"])
    assert rows["Ditto"][1:] == ["**85.75 ± 0.75**<sup>①</sup>", "5.75<sup>②</sup>", "diverged<sup>a</sup>", "–"]
    assert rows["Local"][1:] == ["55.50 ± 0.50<sup>②</sup>", "5.50<sup>①</sup>", "–", "–"]
    assert rows["FedAvg"][1:] == [
        "46.00 ± 1.00<sup>③</sup>",
        "6.00<sup>③</sup>",
        "70.00 ± 0.00<sup>①</sup>",
        "0.00<sup>①</sup>",
    ]
    assert "<sup>a</sup> seed 2 diverged: the loss of client 1 is not finite in round 1." in tables["accuracy.md"]


def test_caption_says_the_protocol(tables):
    assert "differ in" not in tables["accuracy.md"]
    for text in (
        "over 3 seeds (0, 1, 2)",
        "Scored as received: Local, Ditto; by the one global model: FedAvg. ",
        "last evaluated round (round 2)",
        "each client weighted equally",
        "± sample standard deviation over seeds",
        "Std. over clients: population standard deviation, mean over seeds",
        "In a column of the std over clients, marks go to the lowest.",
        "Bold: a significant lead, p ≤ 0.05 against every other row in a two-sided moderated t-test over at least 3 "
        "common seeds, and more than 3 test images a seed.",
    ):
        assert text in tables["accuracy.md"]


def test_caption_of_one_seed_and_last5(make_study):
    study = make_study(seeds=[7], at="last5", score="trained")
    study.cell("m", "dir", 7, {1: [0.5, 0.5], 4: [0.6, 0.6]}, score="trained")
    text = made(study, study.folder)["accuracy.md"]
    assert "one seed (7)" in text and "| 55.00<sup>" in text
    assert "Nothing is bold: a significant lead needs 3 seeds." in text
    assert "last 5 evaluated rounds (up to round 4;" in text
    assert "Every method is scored after local training." in text


def test_caption_of_the_points_of_a_round(make_study):
    study = make_study(seeds=[0])
    for label, point in (("fedavg", "global"), ("local", "trained"), ("fedavg_ft", "adapted"), ("ditto", "trained")):
        study.cell(label, "dir", 0, {1: [0.5, 0.5]}, score=point)
    output = captions.scored_at(study.load(), study.load().finished)
    assert output == (
        "Scored after adaptation: fedavg_ft; after local training: local, ditto; by the one global model: fedavg."
    )
    study.study["score"] = "adapted"
    assert captions.scored_at(study.load(), study.load().finished) == "Every method is scored after adaptation."
    study.study["score"] = "validated"
    assert captions.scored_at(study.load(), study.load().finished) == (
        "Every method is scored as received or after local training, whichever is better on validation images "
        "by method, seed and round."
    )


def test_caption_of_rows_with_a_rule_of_their_own(make_study):
    study = make_study(seeds=[0])
    for label, own in (("a", {}), ("b", {"at": "last5", "score": "trained"})):
        study.method(label)
        study.study["methods"][label] |= own
        study.cell(label, "dir", 0, {1: [0.5]}, also={"accuracy_trained": {1: [0.5]}})
    text = made(study, study.folder)["accuracy.md"]
    assert "Scored as received: a; after local training: b." in text
    assert "a: The score is that of the last evaluated round (round 1)" in text
    assert "b: The score is each client's mean over the last 5 evaluated rounds" in text


def test_caption_of_rounds_chosen_on_validation_images(make_study):
    study = make_study(seeds=[0, 1], at="validation")
    for seed, best in enumerate((1, 3)):
        on_validation = {t: [0.9 if t == best else 0.5] for t in (1, 2, 3)}
        also = {"validation_accuracy_received": on_validation}
        study.cell("m", "dir", seed, {t: [0.5] for t in (1, 2, 3)}, also=also)
    text = made(study, study.folder)["accuracy.md"]
    assert (
        "The score is that of the round that is best on validation images, by method and seed (rounds 1 to 3), "
        "never the best on test images." in text
    )


def test_absent_seeds_are_footnoted(toy):
    toy.cells = [
        cell for cell in toy.cells if (cell["label"], cell["heterogeneity"], cell["seed"]) != ("local", "dir", 2)
    ]
    text = made(toy, toy.folder)["accuracy.md"]
    assert "55.25 ± 0.35<sup>②a</sup>" in text and "<sup>a</sup> over 2 of 3 seeds." in text


def test_captions_of_numbers_name_adopted_cells(toy):
    assert "adopted" not in "".join(made(toy, toy.folder).values())
    toy.study["show"] = [{"table": kind} for kind in ("accuracy", "costs", "settings", "settings")]
    toy.cell("local", "hom", 0, {2: [0.5, 0.5]}, code="2" * 16, adopted=[adoption("1" * 16, "2027-07-01")])
    captions_of = {name: text.splitlines()[0] for name, text in made(toy, toy.folder).items() if name.endswith(".md")}
    sentence = "1 of 16 cells was adopted from earlier code (fedgrid 0.1). As a check, 2 of the 6 cells of its group"
    assert all(sentence in caption for caption in captions_of.values())
    assert [("adopted" in file.read_text()) for file in toy.folder.glob("settings*.md")] == [False, False]


def test_csv_keeps_full_precision(tables):
    table = pd.read_csv(io.StringIO(tables["accuracy.csv"])).set_index(["label", "heterogeneity"])
    assert table.loc[("local", "dir"), "accuracy"] == pytest.approx(0.555, abs=1e-15)
    assert table.loc[("ditto", "dir"), ["rank", "supported", "seeds"]].tolist() == [1, True, 3]
    assert table.loc[("local", "hom"), "status"] == "missing"


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1+1", "\n=1+1", "-"])
def test_no_label_is_a_formula_in_a_spreadsheet(text):
    table = pd.DataFrame({"label": [text], text: [None], "reason": ["a-b=c"]})
    inert = f"'{text}".replace("\r", "\n")
    header, row = reader(io.StringIO(csv(table), newline=""))
    assert (header, row) == (["label", inert, "reason"], [inert, "", "a-b=c"])


def test_a_number_is_no_formula():
    columns = {"number": [-0.5, float("nan")], "text": ["-0.50", "+1e-3"], "whole": [-1, 2], "mixed": [-1.5, "−2"]}
    assert csv(pd.DataFrame(columns)) == "number,text,whole,mixed\n-0.5,-0.50,-1,-1.5\n,+1e-3,2,−2\n"


def test_costs(tables):
    table = pd.read_csv(io.StringIO(tables["costs.csv"])).set_index("label")
    assert table.loc["local", ["cells", "seconds", "peak_memory_mib"]].tolist() == [3, 3.0, 2.0]
    assert table.loc["local", ["seconds_train", "seconds_server"]].tolist() == [1.0, 0.0]  # no server part: no time
    assert table.loc["ditto", "cells"] == 5  # the diverged cell does not count
    assert table.loc["fedavg", ["kib_up", "kib_down"]].tolist() == [1.0, 3.0]  # nor does round 0
    assert "Peak memory (MiB)" in tables["costs.html"]


def test_the_work_of_a_round_follows_its_traffic(tables):
    rows = markdown_rows(tables["costs.md"])
    assert rows["Method"][-2:] == ["Digits, Down (KiB per client and round)", "Passes a round"]
    assert (rows["Local"][-1], rows["Ditto"][-1]) == ("E", "1 + E")
    table = pd.read_csv(io.StringIO(tables["costs.csv"])).set_index("label")
    assert table["work"].to_dict() == {"local": "E", "fedavg": "E", "ditto": "1 + E"}
    for text in (
        "forward-backward passes over a client's images in a round, by formula, with E local epochs.",
        "What idle clients are sent so that they can be scored is not counted as traffic.",
    ):
        assert text in tables["costs.md"]


def test_the_work_of_a_round_is_shown_once_for_all_data_sets(toy):
    toy.study["data"]["letters"] = "Letters"
    toy.cell("local", "dir", 0, {2: [0.5, 0.5]}, data="letters")
    toy.method("mine")
    toy.study["methods"]["mine"]["work"] = ""  # a method need not say it
    tables = made(toy, toy.folder)
    assert tables["costs.tex"].count("Passes a round}") == tables["costs.html"].count("Passes a round</th>") == 1
    assert markdown_rows(tables["costs.md"])["mine"][1:] == ["–"] * 9


def test_same_results_give_same_bytes(tables, common_toy):
    assert made(common_toy, common_toy.folder / "again") == tables


def test_latex_structure(tables):
    text = tables["accuracy.tex"]
    assert r"\multicolumn{4}{c}{Digits}" in text and r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}" in text
    assert r"\textbf{85.75 $\pm$ 0.75}\textsuperscript{\textcircled{1}}" in text and r"Dirichlet $\beta$=0.1" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {line.count(" & ") for line in rows} == {4}


def test_awkward_names_are_escaped():
    grid = Grid("50 % & more", "Method", [[("a_b", 1)]], [("x|<y>", [Entry("1")])], ["n_1"])
    assert r"50 \% \& more" in latex(grid) and r"a\_b" in latex(grid) and "x|$<$y$>$ & 1" in latex(grid)
    assert "x|&lt;y&gt;" in html(grid) and "50 % &amp; more" in html(grid)
    assert r"| x\|\<y\> | 1 |" in markdown(grid)


def test_names_cannot_become_markup():
    grid = Grid("*a* [b](c)", "Method", [[("_a_", 1)]], [("[3mm] x", [Entry("1")]), ("`$x$`", [Entry("2")])], [])
    assert r"\*a\* \[b\](c)" in markdown(grid) and r"\_a\_" in markdown(grid) and r"| \`\$x\$\` | 2 |" in markdown(grid)
    assert "\n{[}3mm{]} x & 1" in latex(grid)  # a bracket after a line's end would be taken for a length


def test_the_caption_says_where_cells_were_not_computed_alike(make_study):
    study = make_study(seeds=[0, 1])
    for seed, torch in enumerate(("2.6.0", "2.13.0")):
        head = {"versions": {"fedgrid": "0.1", "torch": torch}, "hardware": {"cpu": "one", "device": "cpu"}}
        study.cell("m", "dir", seed, {1: [0.5]}, **head)
    sentence = "The cells differ in torch (2.13.0: 1 cell, 2.6.0: 1 cell): identical bits require"
    assert sentence in made(study, study.folder)["accuracy.md"]


def test_clients_without_any_score_are_counted(toy):
    results = toy.load()
    names = dict(zip(CELL, ("ditto", "digits", "dir", 0), strict=True))
    lone = [names | {"round": 0, "client": 9, "metric": f"{part}_samples", "value": 5.0} for part in ("train", "test")]
    assert captions.unscored(results) == []
    rows = pd.concat([results.rows.astype({"metric": str}), pd.DataFrame(lone)])
    (sentence,) = captions.unscored(replace(results, rows=rows))
    assert sentence.startswith("1 client (summed over all cells) has no score")
