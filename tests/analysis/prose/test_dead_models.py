"""Cells whose accuracy stands still are named, where the run ends and on the page."""

import pytest

from fedgrid.analysis.pages.table_set import write_tables
from fedgrid.analysis.prose.dead_models import standing_still
from fedgrid.jobs.standstill import FEWEST_EQUAL, unchanged_since

DEAD = {0: [0.1, 0.2]} | {number: [0.5, 0.7] for number in range(1, 12)}
LEARNING = {number: [0.5, 0.6 + number / 100] for number in range(12)}


@pytest.fixture
def study(make_study):
    study = make_study()
    for seed in range(3):
        study.cell("fedavg", "dir", seed, LEARNING)
        study.cell("ditto", "dir", seed, DEAD if seed else LEARNING)
    return study


def test_cells_that_stand_still_are_named_below_the_table(study):
    (sentence,) = standing_still(study.load())
    assert sentence == (
        "Accuracy stands still to the last bit, as where units have died and a model predicts one class alone: "
        "ditto on Digits, Dirichlet β=0.1, 2 clients, seeds 1 and 2, since round 1."
    )
    write_tables(study.load(), study.folder)
    assert sentence in (study.folder / "accuracy.md").read_text()


def test_cells_that_learn_are_not(make_study):
    study = make_study().in_column({"ditto": [0.9, 0.8, 0.7], "fedavg": [0.9, 0.8, 0.6]})
    assert standing_still(study.load()) == []


@pytest.mark.parametrize(
    ("accuracies", "since"),
    [
        ([], None),
        ([0.5] * FEWEST_EQUAL, 0),
        ([0.5] * (FEWEST_EQUAL - 1), None),
        ([0.1, 0.4, *[0.5] * FEWEST_EQUAL], 2),
        ([*[0.1] * (FEWEST_EQUAL + 1), *[0.5] * FEWEST_EQUAL], None),
        ([0.4, *[1.0] * FEWEST_EQUAL], None),
        ([*[0.5] * FEWEST_EQUAL, 0.6], None),
    ],
)
def test_accuracy_stands_still_in_half_of_the_rounds_and_ten(accuracies, since):
    assert unchanged_since(dict(enumerate(accuracies))) == since
