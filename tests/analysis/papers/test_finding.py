"""The first sentences of a paper's page, by hand."""

from pathlib import Path

import pytest

from fedgrid.analysis.papers.claims import verdicts
from fedgrid.analysis.papers.finding import finding, main_experiment
from fedgrid.analysis.papers.overview import Overview

BEST, MIDDLE, LOW = [0.90, 0.91, 0.89], [0.80, 0.80, 0.81], [0.50, 0.52, 0.51]
NOISY = [0.75, 0.99, 0.70]


def overview(study) -> Overview:
    results = study.load()
    about = results.study
    return Overview("x", Path("x"), about.title, about.source, results=results, verdicts=verdicts(results))


@pytest.fixture
def study(make_study):
    """ "New" leads the first column significantly, "Old" the second one not."""
    study = make_study(source="Table 1 (Sec. 2)", claims=[{"says": "New leads.", "leads": "New"}])
    for label in ("New", "Old", "Local"):
        study.method(label)
    in_columns = {"dir": {"New": BEST, "Old": MIDDLE, "Local": LOW}, "hom": {"New": MIDDLE, "Old": NOISY, "Local": LOW}}
    for heterogeneity, scores in in_columns.items():
        for label, by_seed in scores.items():
            for seed, value in enumerate(by_seed):
                study.cell(label, heterogeneity, seed, {1: [value, value]}, samples=[1000, 1000])
    return study


def prints(study, *numbers):
    for row, column, value in numbers:
        study.prints(row, value, heterogeneity=study.study["heterogeneity"][column])


HERE = (
    "Here New leads Digits (Dirichlet β=0.1, 2 clients) by 9.67 points (significant); the other lead is not "
    "significant: Old is ahead on Digits (homogeneous, 2 clients) by 1.00 points. "
)
OPEN = "So the claim is neither confirmed nor refuted."


def test_what_is_reported_and_what_leads_here(study):
    prints(study, ("New", "dir", "90"), ("Old", "dir", "80"), ("New", "hom", "90"), ("Old", "hom", "80"))
    assert finding(overview(study)) == f"New is reported to lead both columns of Table 1. {HERE}{OPEN}"


def test_a_claim_of_some_columns(study):
    study.study["claims"][0]["columns"] = ["homogeneous, 2 clients"]
    assert finding(overview(study)).startswith("New is reported to lead one of two columns of Table 1. ")


def test_without_a_claim_the_printed_numbers_say_who_leads(study):
    study.study |= {"claims": [{"says": "New is last.", "last": "New"}], "source": ""}
    prints(study, ("New", "dir", "70"), ("Local", "dir", "80"), ("New", "hom", "90"), ("Local", "hom", "99"))
    sentence = "Local is reported to lead both columns. "
    assert finding(overview(study)) == f"{sentence}{HERE.rstrip('. ')}; Local leads no column and is 3rd of 3 rows."


def test_nothing_is_reported_where_nothing_is_claimed_or_printed(study):
    study.study["claims"] = []
    assert finding(overview(study)) == HERE.rstrip()


def test_a_refuted_and_a_confirmed_claim(study):
    study.study["claims"][0]["leads"] = "Local"
    assert finding(overview(study)).endswith(
        "; Local leads no column and is 3rd of 3 rows. In at least one column Local is significantly behind another "
        "row, so the claim is refuted."
    )
    study.cells = [cell for cell in study.cells if cell["heterogeneity"] == "dir"]
    study.study["claims"][0]["leads"] = "New"
    assert finding(overview(study)) == (
        "New is reported to lead in Table 1. Here New leads Digits (Dirichlet β=0.1, 2 clients) by 9.67 points "
        "(significant). So the claim is confirmed."
    )


def test_few_seeds_are_named(study):
    study.study["seeds"] = [0]
    study.cells = [cell for cell in study.cells if cell["seed"] == 0]
    assert finding(overview(study)).endswith(f" A significant lead needs three seeds; this run has one. {OPEN}")


def test_leads_of_many_columns_are_counted(study):
    study.study["claims"] = []
    for number in range(6):
        study.study["heterogeneity"][f"h{number}"] = f"level {number}"
        for label, scores in (("New", [0.5] * 3), ("Local", [0.6 + 0.01 * number] * 3)):
            for seed, value in enumerate(scores):
                study.cell(label, f"h{number}", seed, {1: [value, value]})
    assert finding(overview(study)) == (
        "Here New leads Digits (Dirichlet β=0.1, 2 clients) by 9.67 points (significant); in the other seven columns "
        "no lead is significant: Old is ahead in one (by 1.00 points) and Local is ahead in six (by 10.00 to 15.00 "
        "points)."
    )


def test_ties_and_columns_with_one_result(study):
    study.study["claims"] = []
    study.cells = [cell for cell in study.cells if (cell["label"], cell["heterogeneity"]) == ("New", "dir")]
    assert finding(overview(study)) == "Here the one column has too few results to compare."
    for seed, value in enumerate(BEST):
        study.cell("Old", "dir", seed, {1: [value, value]}, samples=[1000, 1000])
    assert finding(overview(study)) == "Here no row leads; in the one column several rows share the first place."


def test_the_main_experiment_is_the_first_with_results_and_a_table_that_a_row_is_claimed_to_lead(study):
    first, second = overview(study), overview(study)
    study.study["show"] = [{"table": "costs"}]
    costs = overview(study)
    study.study |= {"show": [{"table": "accuracy"}], "claims": []}
    preliminary = overview(study)
    study.cells, study.study["show"] = [], [{"table": "accuracy"}]
    empty = overview(study)
    not_run = Overview("y", Path("y"), "Y")
    assert main_experiment([not_run, costs, empty, preliminary, first, second]) is first
    assert main_experiment([not_run, costs, preliminary]) is preliminary
    assert main_experiment([not_run, costs, empty]) is None
