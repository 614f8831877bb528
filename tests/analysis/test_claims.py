"""Claims against results, by hand."""

import pytest

from fedgrid.analysis.claims import FAILS, HOLDS, UNTOLD, verdicts


def study_of(make_study, rows, seeds=2, columns=("dir", "hom"), samples=(10, 30), **study):
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


def told(study, **claim):
    study.study["claims"] = [{"says": "so"} | claim]
    (verdict,) = verdicts(study.load())
    return verdict


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ({"leads": "A"}, FAILS),  # a tie with B in the first column
        ({"leads": "B"}, FAILS),
        ({"above": ["A", "C"]}, HOLDS),
        ({"above": ["A", "B"]}, FAILS),
        ({"above": ["C", "B"]}, FAILS),
        ({"within": ["A", 1]}, HOLDS),  # equal ones share a rank
        ({"within": ["B", 1]}, FAILS),
        ({"within": ["B", 2]}, HOLDS),
        ({"within": ["C", 3]}, HOLDS),
        ({"within": ["A", 1], "metric": "std_clients"}, FAILS),
        ({"within": ["A", 2], "metric": "std_clients"}, HOLDS),
        ({"above": ["B", "C"], "metric": "std_clients"}, FAILS),
        ({"grows": ["A", "B"]}, HOLDS),  # 0, 15
        ({"grows": ["A", "C"]}, HOLDS),  # 25, 40
        ({"grows": ["C", "A"]}, FAILS),
        ({"grows": ["B", "C"]}, FAILS),  # 25, 25
    ],
)
def test_verdicts(make_study, claim, verdict):
    assert told(study_of(make_study, ROWS), **claim).verdict == verdict


def test_a_verdict_says_its_rule_and_its_numbers(make_study):
    found = told(study_of(make_study, ROWS), above=["A", "C"])
    assert found.says == "so" and found.rule == "A has better accuracy than C in every column of both."
    assert found.numbers == [
        "Digits, dir: A 80.00, C 55.00, difference +25.00",
        "Digits, hom: A 80.00, C 40.00, difference +40.00",
    ]
    grown = told(study_of(make_study, ROWS), grows=["A", "C"])
    assert grown.numbers == ["; ".join(found.numbers)]


def test_prose_cannot_be_checked(make_study):
    found = told(study_of(make_study, ROWS))
    assert (found.verdict, found.rule, found.numbers) == (UNTOLD, "No rule can check this sentence.", [])


def test_a_row_that_is_not_there(make_study):
    found = told(study_of(make_study, ROWS), above=["A", "MOON"])
    assert (found.verdict, found.numbers) == (UNTOLD, ["There is no row MOON here."])


def test_no_claims_no_verdicts(make_study):
    assert verdicts(study_of(make_study, ROWS).load()) == []


def test_a_column_without_cells_leaves_it_open_but_one_against_it_decides(make_study):
    rows = ROWS | {"A": ([0.8, 0.9], None)}
    assert told(study_of(make_study, rows), leads="A").verdict == UNTOLD
    assert told(study_of(make_study, ROWS | {"A": ([0.1, 0.1], None)}), leads="A").verdict == FAILS


def test_a_rival_that_is_not_finished_may_still_win(make_study):
    study = study_of(make_study, {"A": ([0.9, 0.9], [0.9, 0.9]), "B": ([0.5, 0.5], None)}, seeds=1)
    study.without("b", "hom", 0, "not at hand")
    found = told(study, leads="A")
    assert found.verdict == UNTOLD and found.numbers[1] == "Digits, hom: A 90.00, 0 others"
    assert told(study, within=["B", 2]).numbers[1] == "Digits, hom: B has no final number"


def test_a_rival_that_diverged_or_was_not_planned_does_not_count(make_study):
    study = study_of(make_study, {"A": ([0.9, 0.9], [0.9, 0.9]), "B": ([0.5, 0.5], None)})
    study.method("c", title="C")
    for seed in (0, 1):
        study.cell("c", "dir", seed, {1: [1.0, 1.0]}, status="diverged", reason="no")
    assert told(study, leads="A").verdict == HOLDS
    assert told(study, leads="C").verdict == UNTOLD


@pytest.mark.parametrize(
    ("lead", "verdict"), [(0.0, UNTOLD), (0.01, UNTOLD), (-0.01, UNTOLD), (0.02, HOLDS), (-0.02, FAILS)]
)
def test_with_one_seed_a_lead_must_be_worth_a_test_image(make_study, lead, verdict):
    """Two clients, 30 test images at most: one image is worth 1/60 of the mean over clients."""
    rows = {"A": ([0.5 + lead, 0.5 + lead],), "B": ([0.5, 0.5],)}
    found = told(study_of(make_study, rows, seeds=1, columns=("dir",)), leads="A")
    assert found.verdict == verdict and "With one seed" in found.rule
    two = told(study_of(make_study, rows, seeds=2, columns=("dir",)), leads="A")
    assert two.verdict == (HOLDS if lead > 0 else FAILS) and "With one seed" not in two.rule


def test_one_column_cannot_grow(make_study):
    rows = {"A": ([0.9, 0.9],), "B": ([0.5, 0.5],)}
    assert told(study_of(make_study, rows, columns=("dir",)), grows=["A", "B"]).verdict == UNTOLD


def test_columns_are_those_of_the_accuracy_table(make_study):
    study = make_study(seeds=[0], show=[{"table": "accuracy", "domains": True}])
    for name, values in (("A", [0.9, 0.1]), ("B", [0.5, 0.15])):
        study.method(name.lower(), title=name)
        study.cell(name.lower(), "dir", 0, {1: values}, domains=["x", "y"])
    found = told(study, leads="A")
    # in y, 0.05 are more than one of 30 images; of all clients it would be held
    assert found.verdict == FAILS
    assert [line.split(": ")[0].split(", ")[-1] for line in found.numbers] == ["x", "y", "Avg."]
    study.study["show"] = [{"table": "accuracy"}]
    assert told(study, leads="A").verdict == HOLDS


def test_an_experiment_without_cells(make_study):
    study = make_study(seeds=[0])
    study.method("a", title="A")
    assert told(study, leads="A").verdict == UNTOLD


def test_where_a_paper_prints_numbers_only_its_rows_compete(make_study):
    """B, a variant of ours, is above A in the second column, of which the paper prints A and C."""
    study = study_of(make_study, {"A": ([0.8], [0.8]), "B": ([0.7], [0.9]), "C": ([0.6], [0.7])}, samples=[10])
    assert told(study, leads="A").verdict == FAILS
    for row in ("A", "C", "Averaged"):
        study.prints(row, "70", heterogeneity="hom")
    found = told(study, leads="A")
    assert found.verdict == HOLDS and "only the rows that it prints" in found.rule
    assert found.numbers[0].endswith("B 70.00, difference +10.00")  # nothing is printed of the first column
    assert told(study, within=["C", 2]).verdict == FAILS  # third of the first column, second of two in the second
    assert told(study, leads="A", metric="std_clients").verdict == FAILS  # printed is accuracy alone; all are equal
    assert "prints" not in told(study, above=["A", "C"]).rule


def test_two_rows_are_compared_where_both_were_planned(make_study):
    study = study_of(make_study, {"A": ([0.8], [0.8]), "B": ([0.7], None)}, samples=[10])
    found = told(study, above=["A", "B"])
    assert (found.verdict, len(found.numbers)) == (HOLDS, 1)
    study.without("b", "hom", 0, "not at hand")
    assert told(study, above=["A", "B"]).verdict == UNTOLD
    nowhere = study_of(make_study, {"A": ([0.8], None), "B": (None, [0.7])}, samples=[10])
    assert told(nowhere, above=["A", "B"]).verdict == UNTOLD
