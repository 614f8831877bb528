"""The differences of one row and each other one, with known answers."""

from math import isnan

import pytest

from fedgrid.analysis.pages.table_set import shown_tables, write_tables
from fedgrid.analysis.tables.against import Options, make_table
from fedgrid.errors import UserError

SCORES = {
    "mine": [0.90, 0.91, 0.92],
    "fedavg": [0.50, 0.52, 0.51],
    "fedper": [0.90, 0.91, 0.91],
    "ditto": [0.91, 0.90, 0.94],
}


@pytest.fixture
def study(make_study):
    study = make_study().in_column(SCORES)
    study.study["methods"]["mine"] |= {"file": "mine.py"}
    return study


def test_a_study_with_a_method_of_ones_own_shows_it(study):
    assert [*shown_tables(study.load())] == ["accuracy", "costs", "against"]
    study.study["methods"]["mine"] |= {"file": None}
    assert [*shown_tables(study.load())] == ["accuracy", "costs"]


def test_differences_intervals_and_seeds_ahead(study):
    table, grid = make_table(study.load(), Options())
    by_row = table.set_index("against")
    assert by_row["difference"].to_dict() == pytest.approx({"fedavg": 0.4, "fedper": 0.01 / 3, "ditto": -0.02 / 3})
    assert by_row["ahead"].to_dict() == {"fedavg": 3, "fedper": 1, "ditto": 1} and (by_row["common"] == 3).all()
    assert by_row.loc["fedavg", "p_adjusted"] == pytest.approx(3 * by_row.loc["fedavg", "p_value"])
    assert isnan(by_row.loc["fedper", "p_adjusted"])  # a ninth of an image a seed
    rows = {name: [entry.text for entry in entries] for name, entries in grid.rows}
    assert rows["fedavg"][0] == "+40.00" and rows["fedavg"][3] == "3 of 3" and rows["fedper"][2] == "–"
    assert {name: entries[0].bold for name, entries in grid.rows} == {"fedavg": True, "fedper": False, "ditto": False}
    assert "mine (own file) less each other row, in points of accuracy over 3 seeds" in grid.caption


def test_any_row_may_be_asked_for(study):
    table, grid = make_table(study.load(), Options(row="ditto"))
    assert set(table["label"]) == {"ditto"} and next(name for name, _ in grid.rows) == "mine (own file)"
    with pytest.raises(UserError, match="no row 'dito'; did you mean 'ditto'"):
        make_table(study.load(), Options(row="dito"))


def test_several_own_rows_are_pairs_and_a_row_without_scores_has_dashes(study):
    study.study["methods"]["ditto"] |= {"file": "ditto.py"}
    study.without("later", "dir", 0, "not at hand")
    table, grid = make_table(study.load(), Options())
    rows = {name: [entry.text for entry in entries] for name, entries in grid.rows}
    assert rows["ditto (own file) − fedavg"][0] == "+40.67" and rows["mine (own file) − later"] == ["–"] * 4
    assert len(table) == len(rows) == 2 * 4
    study.study["show"] = [{"table": "against", "row": "fedper"}]
    write_tables(study.load(), study.folder)
    assert (study.folder / "against.csv").read_text().startswith("label,against,data,heterogeneity,difference,low,high")
