"""How a partial study is laid over another, and what a list in an entry means."""

import pytest

from fedgrid.errors import UserError
from fedgrid.grid.study.expansion import expand, fill_label
from fedgrid.grid.study.overlay import added_rows, lay, lay_study, overridden, with_rows
from fedgrid.grid.study.sections import Origin, Section

BASE = {
    "data": "digits",
    "heterogeneity": [{"partition": "dirichlet", "beta": 0.1}, {"partition": "pathological", "classes": 2}],
    "methods": {"local": None, "fedprox": {"mu": 0.1, "training": {"lr": 0.1}}, "fedavg": None},
    "model": "mlp",
    "training": {"rounds": 5, "lr": 0.05},
    "seeds": [0, 1],
}
CASES = {
    "mappings merge": ({"training": {"rounds": 7}}, "training", {"rounds": 7, "lr": 0.05}),
    "a mapping over a list merges into every entry": (
        {"heterogeneity": {"clients": 4}},
        "heterogeneity",
        [
            {"partition": "dirichlet", "beta": 0.1, "clients": 4},
            {"partition": "pathological", "classes": 2, "clients": 4},
        ],
    ),
    "one that names a component replaces a list": (
        {"heterogeneity": {"partition": "homogeneous"}},
        "heterogeneity",
        [{"partition": "homogeneous"}],
    ),
    "a mapping over a name": ({"data": {"side": 16}}, "data", {"name": "digits", "side": 16}),
    "the same component again": ({"model": {"name": "mlp", "hidden": 8}}, "model", {"name": "mlp", "hidden": 8}),
    "another component": ({"data": {"name": "mnist"}}, "data", {"name": "mnist"}),
    "a name replaces": ({"data": "mnist"}, "data", "mnist"),
    "a list replaces": ({"seeds": [4]}, "seeds", [4]),
    "names select rows, in their order": (
        {"methods": ["fedavg", "fedprox"]},
        "methods",
        {"fedavg": None, "fedprox": {"mu": 0.1, "training": {"lr": 0.1}}},
    ),
    "a mapping changes rows and adds some": (
        {"methods": {"fedprox": {"training": {"lr": 1}}, "fedper": None}},
        "methods",
        {
            "local": None,
            "fedprox": {"method": "fedprox", "mu": 0.1, "training": {"lr": 1}},
            "fedavg": None,
            "fedper": None,
        },
    ),
    "a row without settings is left as it is": (
        {"methods": {"fedprox": None}},
        "methods",
        BASE["methods"],
    ),
    "another method under a label": (
        {"methods": {"fedprox": {"method": "ditto"}}},
        "methods",
        BASE["methods"] | {"fedprox": {"method": "ditto"}},
    ),
}


def laid(base, over, key=""):
    return lay_study(Section(base), Section(over, Origin(key=key)))


@pytest.mark.parametrize("case", CASES)
def test_lay(case):
    over, key, expected = CASES[case]
    assert laid(BASE, over) == BASE | {key: expected}


def test_nothing_laid_over_changes_nothing_and_a_study_is_never_changed():
    assert laid(BASE, {}) == BASE
    before = repr(BASE)
    for over, *_ in CASES.values():
        laid(BASE, over)
    assert repr(BASE) == before


def test_laying_twice_is_laying_what_was_laid():
    first, second = {"training": {"rounds": 7}, "data": {"side": 16}}, {"training": {"lr": 1}, "data": {"side": 8}}
    together = lay(Section(first), Section(second))
    assert laid(laid(BASE, first), second) == laid(BASE, together)


def test_a_row_that_is_not_there():
    with pytest.raises(
        UserError, match=r"experiments\.a\.methods: the study has no row 'fedprx'; did you mean 'fedprox'"
    ):
        laid(BASE, {"methods": ["fedprx"]}, "experiments.a")


def test_rows_of_a_study_that_lists_names():
    study = with_rows(Section({"methods": ["local", "fedavg"]}))
    assert laid(study, {"methods": ["fedavg"]})["methods"] == {"fedavg": None}
    assert laid(study, {"methods": {"local": {"a": 1}}})["methods"]["local"]["a"] == 1


def test_a_list_means_each_and_several_mean_every_combination():
    entry = {"partition": "dirichlet", "beta": [0.1, 1], "training": {"lr": [1, 2]}}
    entries = list(expand(Section(entry)))
    assert [taken for _, taken in entries] == [{"beta": beta, "training.lr": lr} for beta in (0.1, 1) for lr in (1, 2)]
    assert entries[2][0] == {"partition": "dirichlet", "beta": 1, "training": {"lr": 1}}
    ((alone, taken),) = expand(Section({"a": 1}))
    assert (alone, taken) == ({"a": 1}, {})
    with pytest.raises(UserError, match="a: a list of values must not be empty"):
        list(expand(Section({"a": []})))


@pytest.mark.parametrize(
    ("template", "label"),
    [("β {beta}", "β 0.1"), ("{n} of {training.lr:}", None), ("{n}, {training.lr}", "5, 2"), ("plain", "plain")],
)
def test_labels_are_filled_in(template, label):
    entry = {"beta": 0.1, "n": 5, "training": {"lr": 2.0}}
    assert fill_label(template, Section(entry), Origin()) == (label or "5 of {training.lr:}")


def test_a_label_that_asks_for_what_is_not_there():
    with pytest.raises(UserError, match=r"heterogeneity\.0\.label: \{bta\} is no setting .* did you mean 'beta'"):
        fill_label("{bta}", Section({"beta": 1}), Origin(key="heterogeneity.0.label"))


def test_what_is_laid_over_keeps_its_own_line():
    base = Section({"training": {"rounds": 5, "lr": 0.05}}, Origin("study.yaml", 1))
    over = Section({"training": {"rounds": 7}}, Origin("study.yaml", 9, "scales.small"))
    study = lay(base, over)
    assert study["training"].origins["rounds"].label == "study.yaml:9: scales.small.training.rounds"
    assert study["training"].origins["lr"].label == "study.yaml:1: training.lr"
    assert [(name, origin.label) for name, origin in overridden(base, over)] == [
        ("training.rounds", "study.yaml:1: training.rounds")
    ]


def test_rows_that_a_mapping_adds():
    study = Section(BASE)
    assert added_rows(study, Section({"methods": {"fedprox": None, "fedper": None}})) == [
        "methods: adds fedper to the 3 rows of the study; to show it alone, list names"
    ]
    assert added_rows(study, Section({"methods": ["fedprox"]})) == added_rows(study, Section({})) == []
