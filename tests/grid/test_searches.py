"""Searches of a plan: keys, what is shared, what waits, and what a choice changes."""

import pytest
from studies import study_of

from fedgrid.files import write_json
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.choices import apply_choices
from fedgrid.grid.plan.plan_file import Plan, read
from fedgrid.grid.plan.searches import Choice, Score, schedule
from fedgrid.grid.study.codec import encode
from fedgrid.run import packs

pytestmark = pytest.mark.usefixtures("working_folder")

VALIDATED = [{"partition": "dirichlet", "beta": 0.5, "clients": 4, "validation": 0.2}]


def searched(**changes):
    """Local, and FedProx with 2 × 2 points; two seeds of the table."""
    methods = {"local": {"search": False}, "fedprox": None}
    usual = {"heterogeneity": VALIDATED, "methods": methods, "search": {"lr": [0.01, 0.1], "mu": [0.1, 1]}}
    return study_of(**usual | changes)


def search_of(study):
    (search,) = study.experiments[0].searches
    return search


def choose(search, number, *kept):
    """Writes the choice of a rung."""
    scores = tuple(Score(point, (0.5, 0.6), 10.0) for point in search.alive(number))
    write_json(search.rungs[number].file, encode(Choice(scores, kept)))


def test_the_cells_of_a_search_have_seeds_of_their_own_and_no_key_of_the_table():
    study = searched()
    (experiment,) = study.experiments
    assert {cell.seed for cell in experiment.trials} == {1000, 1001} and len(experiment.trials) == 8
    assert {cell.seed for cell in study.cells} == {0, 1}
    trials, tables = ({cell.key for cell in cells} for cells in (experiment.trials, experiment.options[:8]))
    assert not trials & tables


def test_cells_of_a_table_wait_till_they_are_chosen():
    study = searched()
    waiting = [cell for cell in study.cells if cell.pending]
    assert {cell.row.label for cell in waiting} == {"fedprox"} and len(waiting) == 2
    assert not {cell.key for cell in waiting} & set(study.known)
    assert not any(cell.done for cell in waiting)
    choose(search_of(study), 0, 2)
    chosen = [cell for cell in apply_choices(study).cells if cell.row.label == "fedprox"]
    assert [(c.seed, c.pending, c.row.training.lr, c.row.component.settings["mu"]) for c in chosen] == [
        (0, False, 0.1, 0.1),
        (1, False, 0.1, 0.1),
    ]
    alone = study_of(heterogeneity=VALIDATED, methods={"fedprox": {"mu": 0.1, "training": {"lr": 0.1}}})
    assert [cell.key for cell in chosen] == [cell.key for cell in alone.cells]


def test_two_studies_share_their_search():
    one, other = searched(), searched(name="t", seeds=[2, 3, 4], title="another")
    assert search_of(one).key == search_of(other).key
    assert {c.key for c in one.experiments[0].trials} == {c.key for c in other.experiments[0].trials}


def test_a_point_more_adds_its_cells_alone():
    before, after = searched(), searched(search={"lr": [0.01, 0.1], "mu": [0.1, 1, 10]})
    keys = [{cell.key for cell in study.experiments[0].trials} for study in (before, after)]
    assert keys[0] < keys[1] and len(keys[1] - keys[0]) == 2 * 2
    assert search_of(before).key != search_of(after).key


def test_how_cells_are_read_is_part_of_a_choices_key():
    keys = {search_of(searched(report={"at": at})).key for at in ("last", "last5", "validation")}
    assert len(keys) == 3


def test_a_plan_holds_all_that_a_search_may_ask_for():
    study = searched(compute={"pack": 3})
    file = Plan(study, packs=packs.chosen(study)).write()
    assert read(file).study == study
    choose(search_of(study), 0, 1)
    now = read(file).study
    assert now == apply_choices(study) != study
    assert now.known.keys() == study.known.keys()


def test_the_manifest_covers_what_was_chosen():
    study = searched()
    first = manifest.files(study)
    choose(search_of(study), 0, 1)
    assert manifest.files(apply_choices(study)) != first


def test_without_a_search_a_study_has_none_of_it():
    study = study_of()
    (experiment,) = study.experiments
    assert not (experiment.searches or experiment.options or experiment.trials or study.choices)
    assert apply_choices(study) is study and study.known == study.by_key


@pytest.mark.parametrize(
    ("points", "rounds", "rungs"),
    [
        (4, [20], [(20, 1)]),
        (8, [10, 20, 40], [(10, 4), (20, 2), (40, 1)]),
        (9, [1, 3, 9], [(1, 3), (3, 1)]),
        (5, [10, 20], [(10, 3), (20, 1)]),
        (2, [1, 10], [(1, 1)]),
    ],
)
def test_each_rung_keeps_as_many_points_as_cost_the_same_on_the_next(points, rounds, rungs):
    assert schedule(points, rounds) == rungs


def test_later_rungs_compare_what_the_earlier_one_kept():
    study = searched(search={"lr": [0.01, 0.1], "mu": [0.1, 1], "rungs": [1, 2]})
    search, known = search_of(study), study.known
    assert [(rung.rounds, rung.keep) for rung in search.rungs] == [(1, 2), (2, 1)]
    assert {known[key].row.training.rounds for key in search.trials()} == {1}
    assert {known[key].artifacts for key in search.trials()} == {("state",)}
    choose(search, 0, 3, 1)
    assert search.alive(1) == [1, 3] and search.chosen is None
    later = [known[key] for key in search.trials() if known[key].row.training.rounds == 2]
    assert {(c.row.training.lr, c.row.component.settings["mu"]) for c in later} == {(0.01, 1), (0.1, 1)}
    assert {cell.artifacts for cell in later} == {()}
    choose(search, 1, 3)
    assert search.chosen == 3
    assert all(not cell.pending for cell in apply_choices(study).cells)


def test_cells_are_packed_with_those_that_are_asked_for_together():
    study = searched(compute={"pack": 3}, seeds=[0, 1, 2, 3])
    of_packs = list(packs.chosen(study).values())
    asked, options = set(study.by_key), search_of(study).candidates
    packed = [key for keys in of_packs for key in keys]
    assert len(packed) == len(set(packed)) and set(packed) == set(study.known)
    for keys in of_packs:
        assert set(keys) <= asked or any(set(keys) <= set(of_point) for of_point in options)


def test_artifacts_are_kept_of_the_tables_cells_alone():
    study = searched(artifacts=["models"])
    kept = {cell.seed: cell.artifacts for cell in study.known.values() if cell.row.label.startswith("fedprox")}
    assert kept == {0: ("models",), 1: ("models",), 1000: (), 1001: ()}
