"""Claims against results, by hand."""

import math

import numpy as np
import pytest

from fedgrid.analysis.pages.table_set import tables
from fedgrid.analysis.papers.claims import CONFIRMED, INCONCLUSIVE, REFUTED, verdicts
from fedgrid.analysis.scores.resolution import Chance


def study_of(make_study, rows, seeds=2, columns=("dir", "hom"), samples=(2000, 2000), **study):
    """Rows with the accuracies of two clients by column; None: no cell."""
    study = make_study(seeds=list(range(seeds)), heterogeneity={name: name for name in columns}, **study)
    for name, by_column in rows.items():
        study.method(name.lower(), title=name)
        for column, values in zip(columns, by_column, strict=True):
            for seed in range(seeds if values else 0):
                study.cell(name.lower(), column, seed, {1: values}, samples=list(samples))
    return study


ROWS = {
    "A": ([0.8, 0.8], [0.7, 0.9]),
    "B": ([0.7, 0.9], [0.6, 0.7]),
    "C": ([0.5, 0.6], [0.2, 0.6]),
}
"""Means 80, 80, 55 and 80, 65, 40; std 0, 10, 5 and 10, 5, 20."""


def verdict_on(study, **claim):
    study.study["claims"] = [{"says": "so"} | claim]
    (verdict,) = verdicts(study.load())
    return verdict


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ({"leads": "A"}, INCONCLUSIVE),  # a tie with B in the first column
        ({"leads": "B"}, REFUTED),
        ({"above": ["A", "C"]}, CONFIRMED),
        ({"above": ["A", "B"]}, INCONCLUSIVE),
        ({"above": ["C", "B"]}, REFUTED),
        ({"within": ["A", 1]}, INCONCLUSIVE),
        ({"within": ["B", 1]}, REFUTED),
        ({"within": ["B", 2]}, CONFIRMED),
        ({"within": ["C", 3]}, CONFIRMED),
        ({"above": ["A", "B"], "metric": "std_clients"}, REFUTED),
        ({"within": ["A", 1], "metric": "std_clients"}, REFUTED),
        ({"within": ["A", 2], "metric": "std_clients"}, CONFIRMED),
        ({"above": ["B", "C"], "metric": "std_clients"}, REFUTED),
        ({"grows": ["A", "B"]}, CONFIRMED),  # 0, 15
        ({"grows": ["A", "C"]}, CONFIRMED),  # 25, 40
        ({"grows": ["C", "A"]}, REFUTED),
        ({"grows": ["B", "C"]}, INCONCLUSIVE),  # 25, 25
    ],
)
def test_verdicts(make_study, claim, verdict):
    assert verdict_on(study_of(make_study, ROWS), **claim).verdict == verdict


def test_a_verdict_says_its_rule_and_its_numbers(make_study):
    actual = verdict_on(study_of(make_study, ROWS), above=["A", "C"])
    assert actual.says == "so" and actual.rule.startswith("A has better accuracy than C in every column of both. ")
    assert "from two standard errors on" in actual.rule
    assert actual.numbers == [
        "Digits, dir: A 80.00, C 55.00, difference +25.00 ± 2.85",
        "Digits, hom: A 80.00, C 40.00, difference +40.00 ± 2.65",
    ]
    grown = verdict_on(study_of(make_study, ROWS), grows=["A", "C"])
    assert grown.numbers == ["; ".join(actual.numbers)]


def test_verdicts_are_a_table_too(make_study):
    study = study_of(make_study, ROWS)
    study.study["claims"] = [{"says": "A is above C.", "above": ["A", "C"]}, {"says": "All is well."}]
    numbers, grid = dict(tables(study.load()))["claims"]
    assert numbers["verdict"].tolist() == [CONFIRMED, INCONCLUSIVE]
    assert numbers["numbers"][0].startswith("Digits, dir: A 80.00, C 55.00, difference +25.00 ± 2.85; Digits, hom:")
    texts = [(name, [entry.text for entry in row]) for name, row in grid.rows]
    assert texts[1] == ("All is well.", [INCONCLUSIVE, "No rule can check this sentence."])


def test_prose_cannot_be_checked(make_study):
    actual = verdict_on(study_of(make_study, ROWS))
    assert (actual.verdict, actual.rule, actual.numbers) == (INCONCLUSIVE, "No rule can check this sentence.", [])


def test_a_row_that_is_not_there(make_study):
    actual = verdict_on(study_of(make_study, ROWS), above=["A", "MOON"])
    assert (actual.verdict, actual.numbers) == (INCONCLUSIVE, ["There is no row MOON here."])


def test_no_claims_no_verdicts(make_study):
    assert verdicts(study_of(make_study, ROWS).load()) == []


def test_a_column_without_cells_leaves_it_open_but_one_against_it_decides(make_study):
    rows = ROWS | {"A": ([0.8, 0.9], None)}
    assert verdict_on(study_of(make_study, rows), leads="A").verdict == INCONCLUSIVE
    assert verdict_on(study_of(make_study, ROWS | {"A": ([0.1, 0.1], None)}), leads="A").verdict == REFUTED


def test_a_rival_that_is_not_finished_may_still_win(make_study):
    study = study_of(make_study, {"A": ([0.9, 0.9], [0.9, 0.9]), "B": ([0.5, 0.5], None)}, seeds=1)
    study.without("b", "hom", 0, "not at hand")
    actual = verdict_on(study, leads="A")
    assert actual.verdict == INCONCLUSIVE and actual.numbers[1] == "Digits, hom: A 90.00, 0 others"
    assert verdict_on(study, within=["B", 2]).numbers[1] == "Digits, hom: B has no final number"


def test_a_rival_that_diverged_or_was_not_planned_does_not_count(make_study):
    study = study_of(make_study, {"A": ([0.9, 0.9], [0.9, 0.9]), "B": ([0.5, 0.5], None)})
    study.method("c", title="C")
    for seed in (0, 1):
        study.cell("c", "dir", seed, {1: [1.0, 1.0]}, status="diverged", reason="no")
    assert verdict_on(study, leads="A").verdict == CONFIRMED
    assert verdict_on(study, leads="C").verdict == INCONCLUSIVE


@pytest.mark.parametrize(
    ("lead", "verdict"),
    [(0.0, INCONCLUSIVE), (0.02, INCONCLUSIVE), (-0.02, INCONCLUSIVE), (0.04, CONFIRMED), (-0.04, REFUTED)],
)
def test_a_lead_must_be_larger_than_what_test_images_may_do(make_study, lead, verdict):
    """Of 2,000 images, half of them right, the mean has a standard error of 1.1 points, and a difference of 1.6."""
    rows = {"A": ([0.5 + lead, 0.5 + lead],), "B": ([0.5, 0.5],)}
    for seeds in (1, 2):  # which share their images here, as clients do
        assert verdict_on(study_of(make_study, rows, seeds=seeds, columns=("dir",)), leads="A").verdict == verdict


def smallest(study, of=("a", "b"), column=("digits", "dir", ""), domains=False, metric="accuracy"):
    return Chance(study.load(), domains).smallest_detectable_difference(*of, column, metric)


def test_clients_and_seeds_with_images_of_their_own_average_chance_away(make_study):
    rows = {"A": ([0.5, 0.5],), "B": ([0.5, 0.5],)}
    study = study_of(make_study, rows, columns=("dir",))
    shared = 2 * math.sqrt(2 * 0.25 / 2000)
    assert smallest(study) == pytest.approx(shared, rel=1e-3)
    study.study["partitions"] = {"digits": {"dir": {"test": "own"}}}
    assert smallest(study) == pytest.approx(shared / 2, rel=1e-3)  # two clients, two seeds
    study.study["partition_seed"] = 0
    assert smallest(study) == pytest.approx(shared / math.sqrt(2), rel=1e-3)  # the same partition for both seeds


def test_seeds_that_differ_by_more_than_their_images_decide(make_study):
    study = study_of(make_study, {}, seeds=3, columns=("dir",))
    for name, by_seed in (("a", (0.5, 0.6, 0.7)), ("b", (0.5, 0.4, 0.6))):
        study.method(name)
        for seed, value in enumerate(by_seed):
            study.cell(name, "dir", seed, {1: [value, value]}, samples=[9000, 9000])
    assert smallest(study) == pytest.approx(2 * np.std([0, 0.2, 0.1], ddof=1) / math.sqrt(3))
    assert smallest(study, metric="std_clients") == pytest.approx(2 * math.sqrt(2 * 0.242 / 9000), rel=0.02)


def test_domains_have_less_images_and_their_mean_has_more(make_study):
    study = study_of(make_study, {}, seeds=1, columns=("dir",))
    for name in ("a", "b"):
        study.method(name)
        study.cell(name, "dir", 0, {1: [0.5, 0.5]}, samples=[1000, 4000], domains=["x", "y"])
    x, y, mean = (smallest(study, column=("digits", "dir", domain), domains=True) for domain in ("x", "y", "avg"))
    assert x == pytest.approx(2 * y, rel=1e-3) and mean == pytest.approx(math.hypot(x, y) / 2, rel=1e-3)


def test_what_has_no_score_has_no_chance(make_study):
    study = study_of(make_study, {"A": ([0.5, 0.5],), "B": (None,)}, columns=("dir",))
    for seed in (0, 1):
        study.without("b", "dir", seed, "not at hand")
    actual = verdict_on(study, above=["A", "B"])
    assert (actual.verdict, actual.numbers) == (INCONCLUSIVE, ["Digits, dir: A 50.00, B –, difference –"])


def test_one_column_cannot_grow(make_study):
    rows = {"A": ([0.9, 0.9],), "B": ([0.5, 0.5],)}
    assert verdict_on(study_of(make_study, rows, columns=("dir",)), grows=["A", "B"]).verdict == INCONCLUSIVE


def test_columns_are_those_of_the_accuracy_table(make_study):
    study = make_study(seeds=[0], show=[{"table": "accuracy", "domains": True}])
    for name, values in (("A", [0.9, 0.1]), ("B", [0.5, 0.15])):
        study.method(name.lower(), title=name)
        study.cell(name.lower(), "dir", 0, {1: values}, domains=["x", "y"], samples=[2000, 2000])
    actual = verdict_on(study, leads="A")
    assert actual.verdict == REFUTED
    assert [line.split(": ")[0].split(", ")[-1] for line in actual.numbers] == ["x", "y", "Avg."]
    study.study["show"] = [{"table": "accuracy"}]
    assert verdict_on(study, leads="A").verdict == CONFIRMED


def test_an_experiment_without_cells(make_study):
    study = make_study(seeds=[0])
    study.method("a", title="A")
    assert verdict_on(study, leads="A").verdict == INCONCLUSIVE


def test_where_a_paper_prints_numbers_only_its_rows_compete(make_study):
    """B, a variant of ours, is above A in the second column, of which the paper prints A and C."""
    study = study_of(make_study, {"A": ([0.8], [0.8]), "B": ([0.7], [0.9]), "C": ([0.6], [0.7])}, samples=[2000])
    assert verdict_on(study, leads="A").verdict == REFUTED
    for row in ("A", "C", "Averaged"):
        study.prints(row, "70", heterogeneity="hom")
    actual = verdict_on(study, leads="A")
    assert actual.verdict == CONFIRMED and "only the rows that it prints" in actual.rule
    assert "B 70.00, difference +10.00" in actual.numbers[0]  # nothing is printed of the first column
    assert verdict_on(study, within=["C", 2]).verdict == REFUTED  # third in one column, second in the other
    assert (
        verdict_on(study, leads="A", metric="std_clients").verdict == INCONCLUSIVE
    )  # printed is accuracy alone; all are equal
    assert "prints" not in verdict_on(study, above=["A", "C"]).rule


def test_two_rows_are_compared_where_both_were_planned(make_study):
    study = study_of(make_study, {"A": ([0.8], [0.8]), "B": ([0.7], None)}, samples=[2000])
    actual = verdict_on(study, above=["A", "B"])
    assert (actual.verdict, len(actual.numbers)) == (CONFIRMED, 1)
    study.without("b", "hom", 0, "not at hand")
    assert verdict_on(study, above=["A", "B"]).verdict == INCONCLUSIVE
    nowhere = study_of(make_study, {"A": ([0.8], None), "B": (None, [0.7])}, samples=[2000])
    assert verdict_on(nowhere, above=["A", "B"]).verdict == INCONCLUSIVE
