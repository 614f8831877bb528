"""docs/ranking.md says what the archived cells of the ranking say."""

from pathlib import Path

import pandas as pd
import pytest
from toys import Study

from benchmarks import ranking as kept
from fedgrid.analysis.scores.ranking import ranking
from fedgrid.analysis.scores.summary import cell_scores, summary
from fedgrid.api.archive.reading import read_archived_study
from fedgrid.grid.plan.manifest_model import SearchDescription
from fedgrid.grid.plan.searches import Choice, Score

SCORES = {
    "fedper": [0.900, 0.901, 0.903],
    "ditto": [0.902, 0.899, 0.901],
    "local": [0.700, 0.702, 0.699],
    "fedavg_ft": [0.600, 0.601, 0.604],
    "fedavg": [0.500, 0.503, 0.501],
}


@pytest.fixture
def results(tmp_path):
    results = Study(tmp_path).in_column(SCORES).load()
    for row, chosen in (("fedper", 1), ("ditto", 1), ("local", 0), ("fedavg", None), ("diverged", 1)):
        points = [{"lr" if row == "ditto" else "training.lr": rate} for rate in (0.01, 0.1)]
        results.study.searches.append(SearchDescription(row, "digits", "dir", points, [9], [4], [], chosen))
    return results


def scores_of(results):
    """The scores of the one column of a study."""
    return kept.only_column(results, cell_scores(results), summary(results))


def test_who_is_first_is_said_with_those_that_cannot_be_told_apart_and_with_the_steps_below(results):
    said = kept.answer(results, ranking(results, results.columns[0]))
    first = "Of 5 rows fedper (90.13 %) is first. Cannot be told apart from it: 1 other, down to ditto (90.07 %). "
    steps = "fedper (90.13 %), local (70.03 %), fedavg_ft (60.17 %), fedavg (50.13 %)."
    assert said == f"{first}Rows that can all be told apart, from the first one down: {steps}"


def test_a_base_has_so_many_rows_above_it_and_below(results):
    ranked = ranking(results, results.columns[0])
    said = "local (70.03 %): 2 are above it, 2 below it, and 0 cannot be told apart from it."
    assert kept.against(results, ranked, "local") == said
    assert kept.against(results, ranked, "ditto").endswith(
        ": 0 are above it, 3 below it, and 1 cannot be told apart from it."
    )


def test_a_base_is_compared_alone_too(results):
    said = kept.alone(results, scores_of(results), "local")
    assert said.startswith(
        "If only these 4 pairs had been compared, it would be 2 and 2. fedper, the highest on these "
    )
    low, high = (float(text) for text in said.split(" above it, ")[1].split(" by ")[0].split(" to "))
    assert "very seeds, is 20.10 points above it, " in said and low < 20.1 < high < 21


def test_rates_are_counted_over_rows_that_have_one(results):
    assert kept.rates(results, ranking(results, results.columns[0])) == "0.01 for 1 and 0.1 for 2"


def test_choices_are_close_where_the_two_best_rates_are_as_near_as_two_processors(results):
    for search, scores in zip(
        results.study.searches, ([0.50, 0.505], [0.3, 0.5], [0.5, None], [0.4, 0.395]), strict=False
    ):
        of_points = tuple(Score(point, (score,), 0) for point, score in enumerate(scores))
        search.choices.append(Choice(of_points, (0,)))
    assert kept.close_choices(results) == "2 rates of 4 were chosen by less than 1.1 points"


def test_gradients_are_in_multiples_of_fedavgs(results, monkeypatch):
    images = {"fedper": 200, "local": 100, "fedavg": 200, "fedavg_ft": 200, "ditto": 400}
    table = pd.DataFrame({"label": [*images], "images_table": [*images.values()], "cells": [2, 1, 2, 2, 2]})
    monkeypatch.setattr(kept, "budgets", lambda results: table)
    said = "4 rows take gradients at as many images as FedAvg, ditto at 2 times as many."
    assert kept.gradients(results, ranking(results, results.columns[0])) == said


def test_rows_on_fresh_seeds_stand_in_the_order_of_the_ranking_beside_what_they_had_there(tmp_path):
    known = scores_of(Study(tmp_path / "known").in_column(SCORES).load())
    now = {"local": [0.79, 0.73, 0.79, 0.80], "fedavg_ft": [0.60, 0.61, 0.63, 0.60], "fedper": [0.70, 0.72, 0.73, 0.76]}
    fresh = Study(tmp_path / "fresh").in_column(now).load()
    header, _, *lines = kept.on_fresh_seeds(fresh.names, known, scores_of(fresh)).split("\n")
    assert header == "| Rows | In the ranking | Difference (points) | 95 % CI | p | Seeds ahead |"
    pairs, before, after, intervals, _, ahead = zip(*(line.strip("| ").split(" | ") for line in lines), strict=True)
    assert pairs == ("fedper − local", "fedper − fedavg_ft", "local − fedavg_ft")
    assert before == ("+20.10", "+29.97", "+9.87") and after == ("−5.00", "**+11.75**", "**+16.75**")
    assert ahead == ("0 of 4", "4 of 4", "4 of 4")
    low, high = (float(text.replace("−", "-")) for text in intervals[0].split(" to "))
    assert low < -5 < 0 < high
    said = kept.again(fresh.names, scores_of(fresh), "fedper")
    assert said.startswith(f"fedper is −5.00 points above local ({intervals[0]}) and 11.75 points above fedavg_ft (")


@pytest.fixture(scope="module")
def archived(request):
    """The results of the archive."""
    return read_archived_study(request.config.rootpath / kept.ARCHIVE).results


def test_the_page_and_the_picture_are_what_the_cells_say(archived, request, monkeypatch):
    """`python -m benchmarks.ranking` writes both anew; the picture holds a digest of its numbers."""
    monkeypatch.chdir(request.config.rootpath)
    assert Path(kept.OUT).read_text(encoding="utf-8") == kept.page(archived, read_archived_study(kept.FRESH).results)
    assert f"[{kept.digest(archived)}]" in Path(kept.PICTURE).read_text(encoding="utf-8")
