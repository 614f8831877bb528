"""Rows with the same numbers are said to have them, and why."""

import pytest

from fedgrid.analysis.pages.table_set import write_tables
from fedgrid.analysis.prose.duplicate_rows import duplicates
from fedgrid.analysis.scores.summary import cell_scores, summary

SAME = [0.9, 0.8, 0.7]


def sentences(study) -> list[str]:
    results = study.load()
    return duplicates(results, cell_scores(results), summary(results))


@pytest.fixture
def study(make_study):
    study = make_study()
    study.method("ditto", lam=1.0, epochs=1)
    return study.in_column({"ditto": SAME, "fedavg": [0.9, 0.8, 0.6]})


def test_different_rows_are_not_mentioned(study):
    assert sentences(study) == []


def test_a_setting_without_effect_is_named(study):
    study.method("ditto weak", method="ditto", lam=0.5, epochs=1)
    study.in_column({"ditto weak": SAME})
    expected = (
        "ditto and ditto weak are equal, for every client in every round: they differ in lam (1.0, 0.5), which had no "
        "effect here."
    )
    assert sentences(study) == [expected]
    write_tables(study.load(), study.folder)
    assert expected in (study.folder / "accuracy.md").read_text()


def test_the_same_settings_are_the_same_cells(study):
    study.method("ditto again", method="ditto", lam=1.0, epochs=1)
    study.cells += [cell | {"label": "ditto again"} for cell in study.cells if cell["label"] == "ditto"]
    (sentence,) = sentences(study)
    assert sentence.endswith("their settings are the same, so they are the same cells.")


def test_other_methods_with_the_same_numbers(study):
    study.in_column({"local": SAME})
    (sentence,) = sentences(study)
    assert sentence.startswith("ditto and local are equal, for every client in every round: what tells these methods")
    assert sentence.endswith("apart had no effect here (ditto: lam = 1.0, epochs = 1).")


def test_columns_in_which_rows_differ(study):
    study.in_column({"local": SAME})
    for label, value in (("ditto", 0.5), ("local", 0.6)):
        for seed in range(3):
            study.cell(label, "hom", seed, {1: [value, value]})
    (sentence,) = sentences(study)
    assert sentence.startswith("ditto and local are equal on Dirichlet β=0.1, 2 clients, for every client")


def test_an_equal_score_after_different_rounds_is_no_setting_without_effect(study):
    for seed, value in enumerate(SAME):
        study.cell("local", "dir", seed, {0: [0.2, 0.1], 1: [value, value]})
    assert sentences(study) == [
        "ditto and local have the same score, though other rounds differ: an effect too small to show in it."
    ]


def test_means_alone_do_not_make_rows_equal(study):
    study.in_column({"local": SAME[::-1]})
    assert sentences(study) == []


def test_rows_that_differ_at_another_point_of_a_round(study):
    for seed, value in enumerate(SAME):
        adapted = {"accuracy_adapted": {1: [0.95, 0.95]}, "accuracy_trained": {1: [value, value]}}
        study.cell("finetuned", "dir", seed, {1: [value, value]}, also=adapted)
    (sentence,) = sentences(study)
    assert sentence.endswith("in every round: the methods differ at other points of a round (after adaptation).")
