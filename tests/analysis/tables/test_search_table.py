"""The tables of searches and of budgets, and the sentences on what was chosen."""

from dataclasses import replace
from functools import partial

import pytest
from toys import make_table

from fedgrid.analysis.pages.table_set import shown_tables
from fedgrid.analysis.prose.searches import chosen_settings, notes_on
from fedgrid.analysis.scores.settings import resolved_settings
from fedgrid.grid.plan.manifest_model import ColumnSettings, RowDescription, SearchDescription
from fedgrid.grid.plan.searches import Choice, Score

search = partial(make_table, "search")

POINTS = [{"mu": mu, "training.lr": 0.1} for mu in (0.1, 1, 10)]


def one_search(*scores, chosen=1, tied=(), column="dir", points=POINTS):
    of_points = tuple(Score(point, by_seed, 100.0) for point, by_seed in enumerate(scores))
    kept = () if chosen is None else (chosen,)
    choices = [] if chosen is None else [Choice(of_points, kept, tied)]
    return SearchDescription("some", "digits", column, points, [1000, 1001], [20], choices, chosen)


@pytest.fixture
def results(make_study):
    """A row with a search in both of its columns."""
    study = make_study(seeds=[0])
    for column in ("dir", "hom"):
        study.cell("some", column, 0, {1: [0.5]})
    loaded = study.load()

    def with_searches(*searches):
        return replace(loaded, study=replace(loaded.study, searches=list(searches)))

    return with_searches


def test_the_table_has_each_point_with_its_spread_and_what_was_chosen(results):
    table, grid = search(results(one_search((0.2, 0.4), (0.5, 0.5), (None, 0.6))), {})
    printed = [[entry.text for entry in entries][3:] for _, entries in grid.rows]
    assert printed == [
        ["mu = 0.1, lr = 0.1", "30.00 ± 14.14", ""],
        ["mu = 1, lr = 0.1", "50.00 ± 0.00", "chosen"],
        ["mu = 10, lr = 0.1", "–", ""],
    ]
    assert [entries[3].bold for _, entries in grid.rows] == [False, True, False]
    assert table["images"].tolist() == [100.0] * 3 and "seeds 1000 and 1001" in grid.caption


def test_notes_on_ties_edges_and_points_without_a_score():
    at_edge = one_search((0.9, 0.9), (0.1, 0.1), (0.9, 0.9), chosen=0, tied=(2,))
    tie, smallest, *_ = notes_on(at_edge)
    assert tie == "Tied after 20 rounds, and later in the grid's order: mu = 10, lr = 0.1."
    assert smallest == "mu = 0.1 is the smallest value of the grid: a smaller one may be better."
    inside = one_search((0.1, 0.1), (0.9, 0.9), (0.1, 0.1), points=[{"mu": mu} for mu in (0.1, 1, 10)])
    assert list(notes_on(inside)) == []
    (nothing,) = notes_on(one_search((None, 0.1), (None, None), (0.1, None), chosen=0))
    assert nothing == "No point has a score on every seed: the first of the grid was taken."


def test_a_setting_with_one_value_in_the_grid_is_at_no_edge():
    assert not any("lr" in note for note in notes_on(one_search((0.1, 0.1), (0.9, 0.9), (0.1, 0.1))))


def test_the_caption_names_what_was_chosen_by_column_where_that_differs(results):
    dir_, hom = one_search((0.2, 0.2), (0.5, 0.5)), one_search((0.9, 0.9), (0.1, 0.1), chosen=0, column="hom")
    (sentence,) = chosen_settings(results(dir_, hom))
    assert "some mu = 1, lr = 0.1 (" in sentence and "), mu = 0.1, lr = 0.1 (" in sentence
    (same,) = chosen_settings(results(dir_, replace(dir_, heterogeneity="hom")))
    assert same.endswith("some mu = 1, lr = 0.1.")
    (waiting,) = chosen_settings(results(one_search(chosen=None)))
    assert waiting.endswith("some not chosen yet.")
    assert chosen_settings(results()) == []


def test_a_study_that_does_not_say_what_it_shows_has_both_tables_where_it_searches(results):
    assert list(shown_tables(results(one_search((0.1, 0.1), (0.2, 0.2))))) == ["accuracy", "costs", "search", "budgets"]
    assert list(shown_tables(results())) == ["accuracy", "costs"]


def test_settings_of_a_column_are_the_studys_the_rows_and_the_columns(results):
    described = results().study
    row = RowDescription("m", "M", settings={"mu": 0.1, "training.lr": 0.5})
    row = replace(row, elsewhere=[ColumnSettings([("digits", "hom")], {"mu": 1, "training.lr": None})])
    study = replace(described, protocol={"lr": 0.05, "rounds": 2}, methods={"some": row})
    changed = replace(results(), study=study)
    assert resolved_settings(changed, "some", ("digits", "dir")) == ({"lr": 0.5, "rounds": 2}, {"mu": 0.1})
    assert resolved_settings(changed, "some", ("digits", "hom")) == ({"lr": 0.05, "rounds": 2}, {"mu": 1})
