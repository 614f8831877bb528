"""What `make numerics` concludes from differences, and what it writes."""

import json

import pyarrow as pa
import pytest
from toys import write_cell

from benchmarks.numerics.__main__ import edited, verdicts
from benchmarks.numerics.cases import Case
from benchmarks.numerics.comparing import Compared, _compared
from benchmarks.numerics.comparison import differences
from benchmarks.numerics.listing import evidence, listed, say_in_changelog, write
from fedgrid.files import write_table
from fedgrid.grid.study.canonical import digest

ENGINE, FEDPROX, DITTO, MLP = "engine", "methods.fedprox", "methods.ditto", "models.mlp"


def case(name, *modules):
    return Case(name, {}, {"cell": frozenset(modules)})


def test_a_unit_is_listed_where_all_cases_that_its_edit_reaches_are_equal():
    edits = {ENGINE: {"rounds"}, FEDPROX: {FEDPROX}}
    equal = [Compared(case("one", ENGINE, "rounds", FEDPROX)), Compared(case("two", ENGINE, "rounds"))]
    assert verdicts(edits, equal) == {}


def test_a_difference_speaks_against_every_edited_unit_that_has_a_part_in_the_case():
    edits = {ENGINE: {"rounds"}, FEDPROX: {FEDPROX}, DITTO: {DITTO}}
    found = [Compared(case("one", ENGINE, "rounds", FEDPROX), "round 1"), Compared(case("two", ENGINE, DITTO))]
    assert verdicts(edits, found) == {ENGINE: "one: round 1", FEDPROX: "one: round 1"}


def test_what_no_case_covers_is_not_listed():
    found = [Compared(case("one", ENGINE)), Compared(case("two", MLP), failure="it fails")]
    against = verdicts({DITTO: {DITTO}, MLP: {MLP}}, found)
    assert against[DITTO].startswith("no case covers it; add one")
    assert against[MLP].startswith("its cases fail (it fails); add one")


def test_edited_modules_are_those_that_differ_or_are_in_one_of_both():
    assert edited({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "x", "d": "4"}) == {"b", "c", "d"}
    assert edited({"a": "1"}, {}) == {"a"}


def test_equal_code_is_listed_under_its_identity_and_other_code_under_a_new_one(tmp_path):
    before, now = {"a": "1"}, {"a": "2", "b": "3"}
    ledger = {"evidence": [{"commit": "first"}], "units": {"a": [{"identity": before, "code": {digest(before): 0}}]}}
    about = evidence("c0ffee", "2 cases, 3 cells")
    assert about["commit"] == "c0ffee" and about["processor"] and "reason" not in about
    same = listed(ledger, {"a": (digest(before), now)}, {"new": {"new": "4"}}, about)
    assert same["units"]["a"] == [{"identity": before, "code": {digest(before): 0, digest(now): 1}}]
    assert same["units"]["new"] == [{"identity": {"new": "4"}, "code": {digest({"new": "4"}): 1}}]
    other = listed(ledger, {}, {"a": now}, evidence("c0ffee", "", "wrong in Eq. 3"))
    assert [one["identity"] for one in other["units"]["a"]] == [before, now]
    assert other["evidence"][1]["reason"] == "wrong in Eq. 3"
    assert ledger["units"]["a"] == [{"identity": before, "code": {digest(before): 0}}]
    write(tmp_path / "ledger.json", other)
    assert json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8")) == other


@pytest.mark.parametrize("keys", ["", "### Keys\n\n- Earlier.\n\n"])
def test_the_changelog_says_why_numbers_change(tmp_path, keys):
    file = tmp_path / "CHANGELOG.md"
    file.write_text(f"# Changelog\n\n## [Unreleased]\n\n{keys}### Fixed\n\n- This.\n\n## 1.0\n\n### Keys\n\n- Old.\n")
    say_in_changelog(file, [FEDPROX], "its penalty was doubled.")
    earlier = keys.removeprefix("### Keys\n\n") or "\n"
    line = f"- New keys for cells with {FEDPROX}: its penalty was doubled."
    assert file.read_text() == (
        f"# Changelog\n\n## [Unreleased]\n\n### Keys\n\n{line}\n{earlier}### Fixed\n\n- This.\n\n"
        "## 1.0\n\n### Keys\n\n- Old.\n"
    )


@pytest.fixture
def computed(tmp_path):
    """The files of a case in two trees."""
    folders = tmp_path / "before", tmp_path / "now"
    for folder in folders:
        write_rows(folder / "cell.partition.parquet", [1, 2])
        write_cell(folder / "cell.parquet", [(1, 0, "loss", 0.5)], HEAD)
        write_rows(folder / "cell.predictions.parquet", [3])
    return folders


HEAD = {"status": "ok", "reason": "", "rounds": 1, "score": "received", "domains": [], "finished": "now"}


def write_rows(file, values):
    write_table(file, pa.table({"values": values}), {})


def test_equal_files_have_no_difference(computed):
    before, now = computed
    write_cell(now / "cell.parquet", [(1, 0, "loss", 0.5)], HEAD | {"finished": "later"})
    assert list(differences(before, now)) == []


def test_differences_name_what_differs(computed):
    before, now = computed
    write_cell(now / "cell.parquet", [(1, 0, "loss", 0.25)], HEAD)
    assert list(differences(before, now)) == ["cell.parquet: round 1, loss of client 0: 0.5 before, 0.25 now"]
    write_rows(now / "cell.partition.parquet", [2, 1])
    assert "cell.partition.parquet: other rows" in list(differences(before, now))


def test_an_artifact_counts(computed):
    before, now = computed
    write_rows(now / "cell.predictions.parquet", [4])
    assert list(differences(before, now)) == ["cell.parquet: the artifact 'predictions'"]
    (now / "cell.predictions.parquet").unlink()
    assert list(differences(before, now)) == ["cell.parquet: the artifact 'predictions' is in one of them alone"]


def test_a_case_that_fails_now_differs_and_one_that_fails_in_both_does_not(computed):
    before, now = computed
    (now / "failed.txt").write_text("Traceback\nValueError: no")
    (now / "cell.parquet").unlink()
    assert list(differences(before, now)) == [
        "cell.parquet: no more (ValueError: no)",
        "failed.txt: only now (ValueError: no)",
    ]
    (before / "cell.parquet").unlink()
    (before / "failed.txt").write_text("Traceback\nValueError: no")
    assert list(differences(before, now)) == []


def test_a_case_that_works_for_the_first_time_says_nothing_of_numbers(computed):
    before, now = computed
    (before / "failed.txt").write_text("ValueError: no")
    (before / "cell.parquet").unlink()
    one = _compared(case("one", ENGINE), before, now)
    assert not one.difference and one.failure == "it failed before, and works now"
