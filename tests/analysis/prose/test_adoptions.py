"""What tables and pages say of cells that were adopted from earlier code."""

from toys import adoption

from fedgrid.analysis.prose import origin
from fedgrid.analysis.prose.adoptions import adopted, groups

FIRST, SECOND, THIRD = (digit * 16 for digit in "123")
JULY, AUGUST = "2027-07-01T10:00:00+00:00", "2027-08-02T10:00:00+00:00"


def with_adopted(study, seed, *entries, **head):
    """The study, with a cell of today's code `THIRD` that was carried as the entries say."""
    study.cell("local", "hom", seed, {2: [0.5, 0.5]}, code=THIRD, adopted=list(entries), **head)
    return study


def test_nothing_is_said_where_nothing_was_adopted(toy):
    assert adopted(toy.load()) == groups(toy.load()) == []


def test_cells_of_one_group(toy):
    for seed in (0, 1):
        with_adopted(toy, seed, adoption(SECOND, JULY))
    assert adopted(toy.load()) == [
        "2 of 17 cells were adopted from earlier code (fedgrid 0.1). As a check, 2 of the 6 cells of "
        "their group were trained again and gave the same bits."
    ]
    assert groups(toy.load()) == [
        "local: 2 cells of code 22222222 → 33333333, checked on 2 of 6 cells on 2027-07-01 with fedgrid 0.3"
    ]


def test_the_latest_checks_of_all_groups_are_added_up(toy):
    with_adopted(toy, 0, adoption(SECOND, AUGUST))
    with_adopted(toy, 1, adoption(FIRST, JULY, ["b"], 9), adoption(SECOND, AUGUST))
    with_adopted(toy, 2, adoption(FIRST, AUGUST, ["d"], 1_000), versions={"fedgrid": "0.0.9"})
    (sentence,) = adopted(toy.load())
    assert "3 of 18 cells were adopted from earlier code (fedgrid 0.0.9 and 0.1)" in sentence
    assert "As a check, 3 of the 1,006 cells of their groups were trained again" in sentence
    assert [phrase.partition(" with")[0] for phrase in groups(toy.load())] == [
        "local: 1 cell of code 11111111 → 22222222, checked on 1 of 9 cells on 2027-07-01",
        "local: 1 cell of code 11111111 → 33333333, checked on 1 of 1,000 cells on 2027-08-02",
        "local: 2 cells of code 22222222 → 33333333, checked on 2 of 6 cells on 2027-08-02",
    ]


def test_a_cell_of_an_unfinished_study_whose_own_code_is_the_same(toy):
    with_adopted(toy, 0, adoption(THIRD, JULY)).without("local", "hom", 1, "no data")
    (sentence,) = adopted(toy.load())
    assert (
        sentence.startswith("1 of 16 finished cells was adopted")
        and "cells of its group were trained again" in sentence
    )
    assert "1 cell of code 33333333, and earlier code of their data or partitions, checked" in groups(toy.load())[0]


def test_a_cell_counts_once_however_many_rows_have_it(toy):
    with_adopted(toy, 0, adoption(SECOND, JULY))
    toy.method("again", method="local")
    toy.cells.append(toy.cells[-1] | {"label": "again"})
    assert adopted(toy.load())[0].startswith("1 of 16 cells was adopted")


def test_the_version_that_adopted_a_cell_is_no_difference(toy):
    current = {"fedgrid": "0.3"}
    toy.cells.clear()
    toy.cell("local", "dir", 0, {2: [0.5, 0.5]}, versions=current)
    with_adopted(toy, 1, adoption(SECOND, JULY))
    assert origin.differing(toy.load()) == []
    with_adopted(toy, 2, adoption(SECOND, JULY), versions={"fedgrid": "0.1", "torch": "2.5"})
    (sentence,) = origin.differing(toy.load())
    assert sentence.startswith("The cells differ in torch (2.5: 1 cell, None: 2 cells): identical bits require")


def test_the_commit_to_check_out_is_one_of_todays_code(toy):
    before, now = ({"id": name, "clean": True} for name in ("before", "now"))
    for seed in (0, 1):
        with_adopted(toy, seed, adoption(SECOND, JULY), commit=before)
    assert origin.steps(toy.load(), "a.yaml")[0] == "git checkout before"
    toy.cell("local", "hom", 2, {2: [0.5, 0.5]}, commit=now)
    assert origin.steps(toy.load(), "a.yaml")[0] == "git checkout now"
