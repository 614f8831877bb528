"""The table scored at other points of a round."""

import pytest

from fedgrid.analysis.pages.views import views
from fedgrid.analysis.scores.results import PAPERS
from fedgrid.analysis.scores.summary import summary
from fedgrid.analysis.tables.accuracy import Options

TRAINED = "accuracy_trained"
OPTIONS = Options(std=True, ranks=True)


@pytest.fixture
def study(make_study):
    """FedAvg is last by its global model and best after local training; Local has only the latter, its own."""
    study = make_study()
    for label, own, by_point in (
        ("local", "trained", {"received": 0.6, "trained": 0.7}),
        ("fedavg", "global", {"global": 0.5, "received": 0.5, "trained": 0.9}),
        ("fedper", "received", {"received": 0.8, "trained": 0.85}),
    ):
        for seed in range(3):
            also = {f"accuracy_{point}": {1: [value, value]} for point, value in by_point.items()}
            study.cell(label, "dir", seed, {}, score=own, also=also)
    return study


def test_every_scoring_that_has_numbers_is_one_click_away(study):
    actual = {view.name: view for view in views(study.load(), OPTIONS)}
    assert list(actual) == ["as each paper does", "as received", "after training", "by the global model"]
    assert "<td>50.00 ± 0.00<sup>③</sup></td>" in actual["as each paper does"].table
    assert "<td><em>90.00 ± 0.00</em><sup>①</sup></td>" in actual["after training"].table
    assert "<td>70.00 ± 0.00<sup>③</sup></td>" in actual["after training"].table
    assert actual["by the global model"].table.count("<td>–</td>") == 4  # two rows without a global model


def test_what_a_scoring_changes_is_reported(study):
    moves = {view.name: view.moves for view in views(study.load(), OPTIONS)}
    words = "Dirichlet β=0.1, 2 clients"
    assert moves["as each paper does"] == ""
    expected = f"{words}: fedavg 50.00 → 90.00, place 3 → 1; local place 2 → 3"
    assert moves["after training"] == expected
    assert moves["by the global model"] == ""  # it ranks FedAvg alone


def test_a_study_that_asks_for_one_scoring_also_offers_the_papers_own(study):
    study.study["score"] = "trained"
    names = [view.name for view in views(study.load(), OPTIONS)]
    assert names == ["after training", "as each paper does", "as received", "by the global model"]


def test_a_row_with_a_scoring_of_its_own_follows_the_switch(study):
    study.study["methods"]["fedavg"]["score"] = "trained"
    results = study.load()
    first, *others = views(results, OPTIONS)
    assert first.name == "as the study asks" and others[0].name == "as each paper does"
    scores = {score: summary(results.rescored(score)).set_index("label")["score"] for score in ("received", PAPERS)}
    assert scores["received"].unique().tolist() == ["accuracy_received"]
    assert scores[PAPERS].to_dict() == {"local": TRAINED, "fedavg": "accuracy_global", "fedper": "accuracy_received"}


def test_one_scoring_needs_no_switch(make_study):
    study = make_study(seeds=[0]).cell("m", "dir", 0, {1: [0.5, 0.7]})
    assert [view.name for view in views(study.load(), OPTIONS)] == ["as each paper does"]
