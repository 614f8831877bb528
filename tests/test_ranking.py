"""The page of a study of one column, from the best row to the last; by hand."""

import pytest
from toys import Study

from benchmarks.ranking import page
from fedgrid.analysis.pages.table_set import write_tables

EQUAL = "local and twin are equal, for every client in every round: "


@pytest.fixture
def folder(tmp_path):
    """Three rows of which two are equal, and one without results."""
    study = Study(tmp_path, seeds=[0, 1], show=[{"table": "accuracy"}, {"table": "costs"}])
    study.in_column({"local": [0.5, 0.52], "fedavg": [0.75, 0.75], "twin": [0.5, 0.52]})
    study.method("later")
    study.without("later", "dir", 0, "not at hand")
    (tmp_path / "tables").mkdir()
    write_tables(study.load(), tmp_path / "tables")
    return tmp_path


def test_rows_are_ranked_with_their_traffic_and_twins_are_named(folder):
    title, about, table, *twins = page(folder).strip().split("\n\n")
    assert title == "# Toy study" and "over 2 seeds (0, 1)" in about
    assert table.splitlines() == [
        "|  | method | scored | accuracy (%) | std. over clients (%) | KiB up | KiB down |",
        "|---|---|---|---|---|---|---|",
        "| 1 | fedavg | received | 75.00 ± 0.00 | 0.00 | 1.0 | 3.0 |",
        "| 2 | local | received | 51.00 ± 1.41 | 0.00 | 1.0 | 3.0 |",
        "| 3 | twin | received | 51.00 ± 1.41 | 0.00 | 1.0 | 3.0 |",
    ]
    assert len(twins) == 1 and twins[0].startswith(EQUAL)
