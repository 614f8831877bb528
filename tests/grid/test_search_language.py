"""The key `search`: what applies to which row, and one sentence for each mistake."""

from pathlib import Path

import pytest
import yaml
from studies import parsed

from fedgrid.errors import UserError
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.yaml_file import read

pytestmark = pytest.mark.usefixtures("working_folder")

STUDY = """
name: s
data: digits
heterogeneity: [{partition: dirichlet, beta: 0.5, clients: 4, validation: 0.2}]
seeds: [0, 1]
model: {name: mlp, hidden: 16, features: 8}
training: {rounds: 4}
methods: {fedavg: , fedprox: }
"""


def study_with(**changes):
    text = parsed(STUDY) | changes
    Path("study.yaml").write_text(yaml.safe_dump({k: v for k, v in text.items() if v is not None}, sort_keys=False))
    return planned_study(read(Path("study.yaml")))


def points(**changes):
    """By row, the settings that its search compares."""
    (experiment,) = study_with(**changes).experiments
    return {search.row: list(search.points) for search in experiment.searches}


MU = [{"mu": 0.1}, {"mu": 1}]
LR = [{"training.lr": 0.01}, {"training.lr": 0.1}]


def test_the_studys_search_applies_to_rows_that_have_the_setting():
    assert points(search={"mu": [0.1, 1]}) == {"fedprox": MU}
    both = [{**lr, **mu} for lr in LR for mu in MU]
    assert points(search={"lr": [0.01, 0.1], "mu": [0.1, 1]}) == {"fedavg": LR, "fedprox": both}


def test_three_ways_to_write_the_same_search():
    short, nested = {"lr": [0.01, 0.1]}, {"training": {"lr": [0.01, 0.1]}}
    long = {"grid": short, "seeds": [1000, 1001]}
    assert points(search=short) == points(search=nested) == points(search=long) == {"fedavg": LR, "fedprox": LR}


def test_a_rows_search_is_laid_over_the_studys_and_false_switches_it_off():
    methods = {"fedavg": {"search": False}, "fedprox": {"search": {"mu": [0.1, 1], "lr": [0.5, 1]}}}
    found = points(search={"lr": [0.01, 0.1]}, methods=methods)
    assert found == {"fedprox": [{"training.lr": lr, **mu} for lr in (0.5, 1) for mu in MU]}
    assert points(methods={"fedavg": None, "fedprox": {"search": {"mu": [0.1, 1]}}}) == {"fedprox": MU}


def test_a_method_setting_comes_before_one_of_training():
    assert points(search={"lr": [0.01, 0.1]}, methods=["scaffold"]) == {"scaffold": [{"lr": 0.01}, {"lr": 0.1}]}


def test_a_point_that_its_method_refuses_is_refused_before_the_run():
    search = {"lr": [0.01, 5]}
    problem = r"^study\.yaml:\d+: methods\.pfedme: takes outer_lr = 5 with lam = 15, .* below 2"
    with pytest.raises(UserError, match=problem):
        study_with(methods={"pfedme": {"search": search}})
    tried = points(methods={"pfedme": {"outer_lr": 0.1, "search": search}})
    assert tried == {"pfedme": [{"training.lr": lr} for lr in search["lr"]]}


def test_other_lists_still_make_rows_each_with_its_search():
    found = points(methods={"fedprox": {"mu": [0.1, 1], "search": {"lr": [0.01, 0.1]}}})
    assert found == {"fedprox, mu = 0.1": LR, "fedprox, mu = 1": LR}


def test_experiments_and_scales_change_the_search():
    base = {"search": {"mu": [0.1, 1]}, "scales": {"small": {"search": {"seeds": [7]}}}}
    study = study_with(**base, scale="small", experiments={"a": None, "b": {"search": False}})
    a, b = study.experiments
    assert [search.seeds for search in a.searches] == [(7,)] and not b.searches


def test_settings_that_no_row_of_a_study_has_are_said_and_not_searched():
    study = study_with(search={"mu": [0.1, 1]}, methods=["fedavg"])
    assert not study.experiments[0].searches
    (notice,) = study.notices
    assert "search.mu" in notice and "no row here has the setting" in notice


PLAIN = {"partition": "dirichlet", "clients": 4}
ROW = {"fedprox": {"mu": 0.1}}
MISTAKES = [
    ({"search": {"muu": [0.1, 1]}}, r"study.yaml:\d+: search: no method has a setting 'muu'; did you mean 'mu'"),
    ({"methods": {"fedavg": {"search": {"mu": [0.1, 1]}}}}, "methods.fedavg.search: 'fedavg' has no setting 'mu'"),
    ({"search": {"mu": [0.1, 1], "seeds": [1]}}, "search.seeds: seed 1 is one of the table's"),
    ({"search": {"mu": [0.1, 1]}, "seeds": [1000]}, "search.seeds: seed 1000 is one of the table's"),
    ({"search": {"mu": [0.1, 1]}, "heterogeneity": [PLAIN]}, "needs validation images.*set its validation, to 0.2"),
    ({"search": {"mu": [0.1]}}, "search.mu: .* leaves nothing to choose; list two values or more"),
    ({"search": {"mu": 0.1}}, "search.mu: expected a list of values to choose from, got 0.1"),
    ({"search": {"mu": [1, 1.0]}}, "search.mu: duplicate value"),
    ({"search": {"mu": [0.1, -1]}}, "mu.*-1"),
    ({"search": {"mu": [0.1, 1]}, "methods": ROW}, "fedprox.mu: 'fedprox' sets mu, which search chooses too"),
    ({"search": {"mu": [0.1, 1]}, "methods": {"fedprox": {"mu": [1, 2]}}}, "the list makes a row of each value"),
    ({"search": {"lr": [0.1, 1]}, "methods": {"fedavg": {"training": {"lr": 1}}}}, "training.lr: 'fedavg' sets lr"),
    ({"search": {"rounds": [2, 4]}}, "search.rounds: the number of rounds is not searched"),
    ({"search": {"mu": [0.1, 1], "rungs": [2, 8]}}, "search.rungs: 8 rounds are more than the 4 of 'fedprox'"),
    ({"search": {"mu": [0.1, 1], "rungs": [4, 2]}}, "search.rungs: numbers of rounds have to grow"),
    ({"search": True}, "search: name settings with lists of values"),
    ({"search": {}}, "search: must not be empty"),
    ({"search": {"mu": [0.1, 1]}, "seeds": [0], "partition_seed": 0, "train_seed": 0}, "search.seeds: with both"),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES, ids=[sentence[:50] for _, sentence in MISTAKES])
def test_each_mistake_is_one_sentence(changes, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        study_with(**changes)
    assert "\n" not in str(caught.value) and "study.yaml:" in str(caught.value)
