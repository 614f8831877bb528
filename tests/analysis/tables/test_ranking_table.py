"""The rows of a column from the best to the last, in groups that the seeds cannot tell apart."""

import pytest
from toys import draw_figure

from fedgrid.analysis.prose.footnotes import letter
from fedgrid.analysis.tables.ranking import Options, make_table
from fedgrid.errors import UserError
from fedgrid.grid.plan.manifest_model import SearchDescription

SCORES = {
    "fedavg": [0.500, 0.503, 0.501],
    "ditto": [0.902, 0.899, 0.901],
    "local": [0.700, 0.702, 0.699],
    "fedper": [0.900, 0.901, 0.903],
}


@pytest.fixture
def study(make_study):
    return make_study().in_column(SCORES)


def test_rows_are_in_order_and_share_letters_where_nothing_tells_them_apart(study):
    study.without("later", "dir", 0, "not at hand")
    table, grid = make_table(study.load(), Options())
    assert table["label"].tolist() == ["fedper", "ditto", "local", "fedavg"]
    assert table["groups"].tolist() == ["a", "a", "b", "c"]
    assert [name for name, _ in grid.rows] == ["fedper", "ditto", "local", "fedavg"]
    (_, first), *_ = grid.rows
    texts = [entry.text for entry in first]
    assert texts[0] == "90.13 ± 0.15" and texts[1] == "a" and texts[2] == "as received" and texts[3] == "90.13"
    assert texts[4:7] == ["1.0", "3.0", "3.0"] and texts[7] == "–"
    assert "Of 6 pairs 5 are told apart." in grid.caption


def test_rows_that_diverged_are_named_with_the_number_of_their_seeds(study):
    study.cell("moon", "dir", 0, {1: [0.5, 0.5]}).cell("moon", "dir", 1, {1: [0.5, 0.5]}, status="diverged")
    study.cell("scaffold", "dir", 0, {1: [0.5, 0.5]}, status="diverged")
    study.cell("scaffold", "dir", 1, {1: [0.5, 0.5]}, status="diverged")
    table, grid = make_table(study.load(), Options())
    assert table["label"].tolist() == ["fedper", "ditto", "local", "fedavg"]
    assert grid.caption.endswith("Not ranked, because training diverged: moon (1 seed) and scaffold (2 seeds).")


def test_letters_of_groups_can_be_told_apart_however_many_there_are():
    assert [letter(group) for group in (0, 25, 26, 51, 52, 53)] == ["a", "z", "A", "Z", "(53)", "(54)"]


def test_a_study_of_several_columns_has_none(study):
    study.cell("local", "hom", 0, {1: [0.5, 0.5]})
    with pytest.raises(UserError, match="of one data set and heterogeneity, and the study has 2"):
        make_table(study.load(), Options())


def test_before_any_cell_there_is_nothing_to_rank(make_study):
    study = make_study()
    study.without("local", "dir", 0, "not at hand")
    table, grid = make_table(study.load(), Options())
    assert table.empty and grid.rows == [] and "Of 0 pairs 0 are told apart." in grid.caption


def test_the_figure_has_a_dot_for_each_row_and_a_line_for_each_group(study):
    study.without("later", "dir", 0, "not at hand")
    figure, title, caption = draw_figure("ranking", study.load(), "digits")
    assert title == "Methods in order on Digits" and "Of 6 pairs 5 are told apart." in caption
    ax, beside = figure.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["fedper", "ditto", "local", "fedavg"]
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [(round(*line.get_xdata(), 2), *line.get_ydata()) for line in dots] == [
        *[(90.13, 0), (90.07, 1), (70.03, 2), (50.13, 3)],
    ]
    assert [list(line.get_ydata()) for line in beside.lines] == [[0, 1], [2], [3]]


def test_rows_without_a_score_are_not_drawn(make_study):
    study = make_study()
    study.without("local", "dir", 0, "not at hand")
    with pytest.raises(UserError, match="no row has a score"):
        draw_figure("ranking", study.load(), "digits")


def test_settings_are_those_of_a_search_or_of_the_rows_own_training(study):
    results = study.load()
    rows = results.study.methods
    rows["local"].settings.update({"training.lr": 0.1, "mu": 2})
    rows["ditto"].settings.update({"training.lr": 0.1})
    rows["fedper"].settings.update({"lr": 0.03})
    rows["fedavg"].settings.update({"lr": None})
    search = SearchDescription("ditto", "digits", "dir", [{"lam": 0.5}, {"lam": 2.0}], [9], [4], [], 1)
    results.study.searches.append(search)
    table, _ = make_table(results, Options())
    settings = table.set_index("label")["settings"]
    assert settings["local"] == "lr = 0.1" and settings["ditto"] == "lam = 2" and settings["fedper"] == "lr = 0.03"
    assert settings.isna()["fedavg"]
