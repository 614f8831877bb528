"""The tables beside accuracy, by hand."""

from functools import partial

import numpy as np
import pytest
from toys import make_table, texts

from fedgrid.analysis.pages.table_set import shown_tables, write_tables
from fedgrid.analysis.tables.bytes import parameter_counts
from fedgrid.analysis.tables.common.grid import Entry, Grid, html, latex, markdown
from fedgrid.errors import UserError
from fedgrid.grid.costs.formulas import formula_value, passes, with_settings
from fedgrid.grid.plan.cell_metadata import Sizes

phases = partial(make_table, "phases")
settings = partial(make_table, "settings")
rounds = partial(make_table, "rounds")
traffic = partial(make_table, "bytes")


def seconds(train, evaluate, **named):
    return {"costs": {"seconds": {"train": train, "evaluate": evaluate, "total": 9.0, "phases": named}}, "rounds": 4}


@pytest.fixture
def curves(make_study):
    """Three rows over three seeds; the target of 50 % is reached in rounds 2, 4 and never, always, never."""
    study = make_study(seeds=[0, 1, 2])
    for label in ("some", "all", "none", "global"):
        study.method(label)
    for seed, first in enumerate((2, 4, 9)):
        study.cell("some", "dir", seed, {t: [0.4, 0.6 if t >= first else 0.5] for t in (0, 2, 4, 6)})
        study.cell("all", "dir", seed, {t: [0.1 * t, 0.1 * t] for t in (0, 2, 5, 6)})
        study.cell("none", "dir", seed, {t: [0.1, 0.1] for t in (0, 6)})
    bad = {"status": "diverged", "reason": "a loss is not finite"}
    for seed in range(3):
        study.cell("global", "hom", seed, {2: [0.9]}, score="global", **(bad if seed == 1 else {}))
    return study


def test_rounds_to_a_target(curves):
    table, grid = rounds(curves.load(), {"target": 50})
    assert texts(grid) == {
        "some": ["4 (2 to >6)", "–"],
        "all": ["5", "–"],
        "none": [">6", "–"],
        "global": ["–", "diverged"],
    }
    assert grid.notes == ["seed 1 diverged: a loss is not finite."]
    entries = table.set_index(["label", "heterogeneity"])
    assert entries.loc[("some", "dir"), ["rounds", "low", "high", "last"]].tolist() == [4, 2, np.inf, 6]
    assert entries.loc[("some", "hom"), "status"] == "missing"
    assert "at least 50 %, over 3 seeds (0, 1, 2)" in grid.caption


def test_phases_of_a_round(make_study):
    study = make_study(seeds=[0, 1, 2])
    study.method("fedsac", title="FedSaC")
    study.method("fedavg", title="FedAvg")
    for seed in range(3):
        study.cell("fedsac", "dir", seed, {1: [0.5]}, **seconds(8.0 + 4 * seed, 2.0, similarity=0.4, subspaces=1.0))
        study.cell("fedavg", "dir", seed, {1: [0.5]}, **seconds(6.0, 2.0))
    study.cell("fedavg", "hom", 0, {1: [0.5]}, **(seconds(6.0, 2.0) | {"status": "diverged"}))
    table, grid = phases(study.load(), {"table": "phases", "names": {"similarity": "Similarity metric"}})
    assert texts(grid) == {
        "Local training": ["3.000", "1.500"],
        "Similarity metric": ["0.100", "–"],
        "Subspaces": ["0.250", "–"],
        "Evaluation": ["0.500", "0.500"],
    }
    assert grid.header == [[("Digits", 2)], [("Dirichlet β=0.1, 2 clients", 2)], [("FedSaC", 1), ("FedAvg", 1)]]
    assert table.set_index(["label", "phase"])["seconds"]["fedsac", "Local training"] == 3


def test_bytes_beside_a_formula(make_study):
    study = make_study(seeds=[0])
    sizes = {"extractor": 1000, "head": 24, "features": 4, "classes": 10}
    for label, title in (("fedavg", "FedAvg"), ("fedcosr", "FedCoSR"), ("local", "Local")):
        study.method(label, title=title)
        study.cell(label, "dir", 0, {1: [0.5, 0.5]}, sizes=sizes)
    asked = {"formula": {"FedAvg": "2 * (phi + pi)", "FedCoSR": "2 * (phi + k * classes)", "Gone": "theta"}}
    table, grid = traffic(study.load(), asked)
    assert texts(grid) == {
        "FedAvg": ["1.0", "3.0", "4.0", "8.0", "2 * (phi + pi)"],
        "FedCoSR": ["1.0", "3.0", "4.0", "8.1", "2 * (phi + k * classes)"],
        "Local": ["1.0", "3.0", "4.0", "–", "–"],
    }
    assert table["parameters"].tolist()[:2] == [2048, 2080]


def test_a_formula_needs_the_sizes_of_its_cell(make_study):
    study = make_study(seeds=[0]).cell("fedavg", "dir", 0, {1: [0.5]})
    _, grid = traffic(study.load(), {"formula": {"fedavg": "theta"}})
    assert texts(grid)["fedavg"] == ["1.0", "3.0", "4.0", "–", "theta"]


@pytest.mark.parametrize(
    ("text", "value"), [("2*theta", 28), ("phi + pi / 2 - 1", 11), ("2 * (phi + omega)", 32), ("k * classes", 6)]
)
def test_formulas(text, value):
    names = parameter_counts(Sizes(extractor=10, head=4, features=2, classes=3))
    assert formula_value(text, names) == value


@pytest.mark.parametrize("text", ["2 *", "__import__('os')", "2 ** 9", "phi / 0", "'a'", "phii"])
def test_what_is_no_formula(text):
    with pytest.raises(UserError, match="formula"):
        formula_value(text, {"phi": 1})


def test_settings_need_no_cells(make_study):
    study = make_study(seeds=[0, 1])
    study.method("fedcosr", title="FedCoSR", alpha=1, blend=None)
    columns = [["digits", "hom"]]
    study.study["methods"]["fedcosr"] |= {"score": "trained", "at": "last"}
    study.study["methods"]["fedcosr"]["elsewhere"] = [{"columns": columns, "settings": {"alpha": 2}}]
    study.study["elsewhere"] = [
        {"columns": columns, "protocol": {"rounds": 9}, "model": "cnn"},
        {"columns": [["digits", "dir"]], "protocol": {"rounds": 5}, "model": None},
    ]
    study.study["described"] = {"dir": "A sentence."}
    _, grid = settings(study.load(), {})
    output = [(of, *(entry.text for entry in entries)) for of, entries in grid.rows]
    there = "Digits, homogeneous, 2 clients"
    assert output == [
        ("Protocol", "everywhere", "data", "Digits"),
        ("Protocol", "everywhere", "heterogeneity", "A sentence."),
        ("Protocol", "everywhere", "heterogeneity", "homogeneous, 2 clients"),
        ("Protocol", "everywhere", "seeds", "0, 1"),
        ("Protocol", "everywhere", "model", "mlp"),
        ("Protocol", "everywhere", "rounds", "2"),
        ("Protocol", "everywhere", "optimizer.name", "sgd"),
        ("Protocol", "everywhere", "optimizer.lr", "0.1"),
        ("Protocol", there, "model", "cnn"),
        ("Protocol", there, "rounds", "9"),
        ("Protocol", "Digits, Dirichlet β=0.1, 2 clients", "rounds", "5"),
        ("FedCoSR", "everywhere", "alpha", "1"),
        ("FedCoSR", "everywhere", "blend", "–"),
        ("FedCoSR", "everywhere", "score", "trained"),
        ("FedCoSR", there, "alpha", "2"),
    ]
    assert 'class="words"' in html(grid) and "{llll}" in latex(grid) and "| --- | --- | --- | --- |" in markdown(grid)


def test_settings_that_hold_everywhere_do_not_say_so(make_study):
    study = make_study()
    study.method("m")
    _, grid = settings(study.load(), {})
    assert grid.header == [[("Setting", 1), ("Value", 1)]]


def test_a_second_table_of_a_kind_has_a_number(make_study):
    asked = [{"table": "accuracy"}, {"table": "rounds"}, {"table": "accuracy"}, {"table": "accuracy"}]
    for show, names in (
        ({"show": asked}, ["accuracy", "rounds", "accuracy-2", "accuracy-3"]),
        ({}, ["accuracy", "costs"]),
    ):
        study = make_study(seeds=[0], **show).cell("m", "dir", 0, {1: [0.5]})
        assert list(shown_tables(study.load())) == names


def test_an_experiment_without_cells_has_the_tables_that_need_none(make_study):
    study = make_study(
        tested=[], show=[{"table": "accuracy", "domains": True}, {"table": "settings"}, {"table": "bytes"}]
    )
    study.method("m")
    write_tables(study.load(), study.folder / "tables")
    assert {path.stem for path in (study.folder / "tables").iterdir()} == {"settings"}


def test_figures_are_no_tables_and_unknown_kinds_are_refused(make_study):
    study = make_study(show=[{"figure": "curves"}, {"table": "accurracy"}])
    study.method("m")
    with pytest.raises(UserError, match="no kind of table 'accurracy'; did you mean 'accuracy'"):
        write_tables(study.load(), study.folder)


def test_markdown_escapes_names_and_values():
    grid = Grid("A table.", "Row", [[("Value", 1)]], [("a|b", [Entry("x|y_z", bold=True)])])
    assert r"| a\|b | **x\|y\_z** |" in markdown(grid)


def test_passes_of_a_round_are_those_of_the_rows_own_settings():
    settings = {"head_epochs": 5, "body_epochs": None, "local_part": "head"}
    assert with_settings("head_epochs + body_epochs", settings) == "5 + E"
    assert passes("head_epochs + body_epochs", settings, epochs=2, batch=0.1) == 7
    assert with_settings("rand_percent / 100 + E", {"rand_percent": 80}) == "80 / 100 + E"
    assert with_settings("local_steps batches", {"local_steps": 50}) == "50 batches"
    assert with_settings("local_steps batches", {"local_steps": None}) == "E"
