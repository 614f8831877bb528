"""The table of the rule for defaults: what a default is compared with, and by how much it is behind."""

import pytest

from benchmarks import defaults

TABLE = """label,score,accuracy
fedavg,accuracy_global,0.9
fedper,accuracy_received,0.95
fedprox,accuracy_global,0.89
ditto,accuracy_trained,0.92
"fedprox six, mu = 0.1",accuracy_global,0.905
"fedprox six, mu = 1",accuracy_global,0.93
"ditto six, lam = 3",accuracy_trained,0.91
"""


@pytest.fixture
def rows(tmp_path):
    (tmp_path / "accuracy.csv").write_text(TABLE)
    return defaults.judged(defaults.read(tmp_path / "accuracy.csv"))


def test_defaults_are_compared_with_their_base_and_with_what_was_tried(rows):
    by_name = {row.method: row for row in rows}
    assert [row.method for row in rows] == ["fedper", "ditto", "fedavg", "fedprox"]
    assert (by_name["fedprox"].base, by_name["ditto"].base) == (90.0, 95.0)  # one model for all, or one for each
    assert by_name["fedprox"].value == "mu = 1" and by_name["fedprox"].behind == pytest.approx(4)
    assert by_name["ditto"].behind == pytest.approx(3) and by_name["fedper"].behind == 0


def test_the_page_names_what_breaks_the_rule(rows):
    lines = defaults.page(rows).splitlines()
    assert "| fedprox | 89.00 | 93.00 (mu = 1) | 90.00 | 4.00 | more than 2 points |" in lines
    assert "| fedavg | 90.00 | – | 90.00 | 0.00 |  |" in lines
