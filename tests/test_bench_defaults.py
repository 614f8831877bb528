"""The table of the rule for defaults: what a default is compared with, and by how much it is behind."""

import csv
from pathlib import Path

import pytest
from studies import prepared, study_of, trained

from benchmarks import defaults
from fedgrid.analysis.scores.collect import in_memory
from fedgrid.analysis.scores.summary import cell_scores
from fedgrid.grid.plan import manifest
from fedgrid.loading import names

MEASURED = Path(__file__).parents[1] / "benchmarks/results/methods"
STUDY = (MEASURED / "defaults-digits.yaml").read_text(encoding="utf-8")
TABLES = [MEASURED / f"{name}.csv" for name in ("defaults", "defaults-digits", "defaults-changed-digits")]

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


@pytest.mark.parametrize("name", ["defaults-mnist", "defaults-cifar10"])
def test_the_tables_of_both_short_studies_are_those_of_their_cells(name):
    changed = name.replace("defaults", "defaults-changed")
    rows = defaults.judged(defaults.read(MEASURED / f"{name}.csv", MEASURED / f"{changed}.csv"))
    assert (MEASURED / f"{name}.md").read_text(encoding="utf-8").endswith(f"\n\n{defaults.page(rows)}\n")


def test_the_table_is_that_of_the_measured_cells_and_every_exception_has_its_reason():
    rows = defaults.judged(defaults.read(*TABLES))
    assert (MEASURED / "defaults.md").read_text(encoding="utf-8").endswith(f"\n\n{defaults.page(rows)}\n")
    reasons = (MEASURED / "README.md").read_text(encoding="utf-8").partition("More than 2 points behind")[2]
    exceptions = {row.method for row in rows if row.behind > defaults.RULE and not row.method.startswith("old_")}
    titles = {cell.row.label: cell.row.title for cell in study_of(STUDY).cells}
    assert exceptions and all(f"{titles[label]} (" in reasons.partition("\n\n")[0] for label in exceptions)
    assert {row.method for row in rows} >= {*names("methods")}


@pytest.mark.full
@pytest.mark.parametrize("method", names("methods"))
def test_a_default_does_as_well_as_it_was_measured(method, working_folder):
    """One seed of five, which may lie far from their mean, and on another processor takes another way."""
    study = prepared(study_of(STUDY, methods=[method], seeds=[0]))
    trained(study.cells[0], study)
    results = in_memory(manifest.content(study, study.experiments[0]), [study.cells[0].key])
    (accuracy,) = cell_scores(results)["accuracy"]
    (*_, row) = [
        row for table in TABLES for row in csv.DictReader(table.open(encoding="utf-8")) if row["label"] == method
    ]
    assert abs(accuracy - float(row["accuracy"])) < max(0.05, 4 * float(row["accuracy_std_seeds"]))
