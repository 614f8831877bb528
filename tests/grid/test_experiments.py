"""Experiments, scales and labels: what a paper's file means, and what is said about mistakes in it."""

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from papers import PAPER, PRINTED, write_paper
from studies import FOUR_CELLS, parsed, study_of

from fedgrid.errors import UserError
from fedgrid.grid.plan import manifest, plan_file
from fedgrid.grid.plan.manifest_model import ColumnSettings
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.grid.study.yaml_file import read
from fedgrid.run.invocation import plan_run

NAMES = [f"toy/{name}" for name in ("table1", "sweep", "letters", "settings", "later")]
"Of the paper's experiments among the results."


@pytest.fixture(autouse=True)
def folder(working_folder):
    write_paper(working_folder)


def paper(change=lambda text: None, **choice):
    text = parsed(PAPER)
    change(text)
    return planned_study(Section(text | choice))


def places(study, name):
    (actual,) = (one for one in study.experiments if one.id == name)
    return [cell.table_position for cell in actual.cells]


def listed(study, name):
    (actual,) = (one for one in study.experiments if one.id == name)
    return manifest.content(study, actual)


def test_parts_of_an_experiment_share_one_table():
    study = paper()
    expected = [
        (row, "digits", column, seed)
        for column in ("Dirichlet 0.5", "3 classes")
        for row in ("local", "fedavg", "fedcosr")
        for seed in (0, 1)
    ]
    assert places(study, "table1") == expected
    row = listed(study, "table1").study.methods["fedcosr"]
    assert row.settings["gamma"] == 0.8
    assert row.elsewhere == [ColumnSettings([("digits", "3 classes")], {"gamma": 3.0})]


def test_a_list_means_each_in_rows_and_columns():
    study = paper()
    assert Counter((row, column) for row, _, column, _ in places(study, "sweep")) == {
        (f"fedprox, mu = {mu}", f"Dirichlet 0.5, {kept} kept"): 2 for mu in (0.01, 1) for kept in (0.5, 0.8)
    }
    rows = listed(study, "sweep").study.methods
    assert [row.title for row in rows.values()] == ["mu 0.01", "mu 1"]


def test_cells_are_shared_and_folders_are_not():
    study = paper()
    assert len(study.cells) == 28 and len(study.by_key) == 24  # local and fedavg on digits, with two seeds
    assert [str(one.folder) for one in study.experiments][:2] == ["results/toy/table1", "results/toy/sweep"]
    small = paper(scale="small")
    assert small.experiments[0].folder == Path("results/toy-small/table1") and small.store == study.store


def test_a_scale_overlays_everything_and_labels_stay():
    study, small = paper(), paper(scale="small")
    assert {cell.row.training.rounds for cell in small.cells} == {2} and {cell.seed for cell in small.cells} == {0}
    assert set(places(small, "table1")) == {place for place in places(study, "table1") if place[-1] == 0}
    assert {column for _, _, column, _ in places(small, "sweep")} == {"Dirichlet 0.5, 0.5 kept"}
    assert not small.by_key.keys() & study.by_key.keys()


def test_only_chooses_experiments_and_no_key():
    study, one, two = paper(), paper(only="sweep"), paper(only=["letters", "table1"])
    assert [e.id for e in one.experiments] == ["sweep"] and [e.id for e in two.experiments] == ["table1", "letters"]
    assert [e.id for e in paper(only="sweep, table1").experiments] == ["table1", "sweep"]
    assert one.by_key.items() <= study.by_key.items()


def test_a_run_of_some_experiments_knows_what_all_are_made_from():
    wanted = {name: manifest.file(paper(), one) for name, one in zip(NAMES, paper().experiments, strict=True)}
    actual = plan_run(parsed(PAPER) | {"only": "sweep"}, [], submits=False)
    assert [one.id for one in actual.study.experiments] == ["sweep"]
    assert actual.manifests == wanted and list(actual.manifests) == NAMES
    assert plan_file.read(actual.write()).manifests == wanted

    def edited(text):
        text["experiments"]["table1"]["claims"][0]["says"] = "FedCoSR is best."

    changed = manifest.files(paper(edited))
    assert [name for name in NAMES if changed[name] != wanted[name]] == ["toy/table1"]


def test_artifacts_of_another_experiment_are_kept_at_once():
    def shared(text):
        text["experiments"]["kept"] = {"methods": ["local"], "artifacts": ["representations"]}

    alone = {cell.table_position[::2]: cell.artifacts for cell in paper(shared, only="table1").cells}
    assert alone.pop(("local", "Dirichlet 0.5")) == ("representations",) and set(alone.values()) == {()}


def test_unavailable_data_leave_a_gap_and_do_not_stop_the_run():
    study = paper()
    lacking = {cell.table_position for cell in study.cells if cell.unavailable}
    assert {place[1] for place in lacking} == {"emnist"} and len(lacking) == 4
    absent = [cell for cell in listed(study, "letters").cells if cell.status == "unavailable"]
    assert len(absent) == 4 and all("'emnist' is not at hand" in cell.reason for cell in absent)
    with pytest.raises(UserError, match="'emnist' is not at hand"):
        study_of(data="emnist", download=False)


@pytest.mark.parametrize(
    ("missing", "data", "words"),
    [
        ("torchvision", "emnist", r"'emnist' needs torchvision: pip install 'fedgrid\[download\]'"),
        ("timm", {"name": "digits", "features": True}, r"the features of 'digits' need timm: pip install 'fedgrid\[f"),
    ],
)
def test_a_library_that_data_need_is_named_before_anything_runs(missing, data, words, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(UserError, match=words):
        study_of(data=data)
    study_of(data="digits")


def test_missing_weights_are_noticed(monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", "hub")
    features: Any = {"name": "digits", "features": True}
    with pytest.raises(UserError, match="the features of 'digits' need the published weights of vit_tiny"):
        study_of(data=features, download=False)
    study_of(data=features, download=True)
    study_of(data=features | {"features": "random"}, download=False)
    Path("hub/models--timm--vit_tiny_patch16_224.augreg/snapshots/1").mkdir(parents=True)
    study_of(data=features, download=False)


def test_a_plan_with_experiments_is_read_as_it_was_written():
    study = paper(scale="small")
    actual = plan_file.read(plan_file.Plan(study, "paper.yaml").write()).study
    assert actual == study
    assert [listed(actual, one.id) for one in actual.experiments] == [
        listed(study, one.id) for one in study.experiments
    ]


def test_an_experiment_without_cells_has_its_settings():
    content = listed(paper(), "settings")
    assert content.cells == [] and content.study.methods["fedcosr"].settings["gamma"] == 0.8
    assert content.study.protocol["rounds"] == 4
    assert listed(paper(), "later").study.lacks == "adversarial training is not there yet"


def test_what_a_paper_says_of_itself_reaches_the_manifest():
    content = listed(paper(), "table1")
    assert content.study.name == "toy/table1" and content.study.source == "Table 1"
    assert content.study.assumed == {"training.rounds": "Not stated. Taken: 4."}
    assert [row["value"] for row in content.published] == ["80.10", "10.10", "90.10", "95.50"]
    assert content.published[1]["corrected"] == "70.10"


def test_a_plain_study_is_one_experiment_at_its_own_place():
    (one,) = study_of().experiments
    assert one.id == "" and one.folder == Path("results/s")


def test_the_same_cells_in_a_paper_and_in_a_plain_study():
    text = parsed(FOUR_CELLS)
    whole = planned_study(Section(text | {"name": "other", "experiments": {"a": None, "b": {"methods": ["local"]}}}))
    assert whole.by_key.keys() == study_of().by_key.keys()


def test_a_scale_may_leave_experiments_out():
    study = paper(at_scale(only=["sweep"]), scale="small")
    assert [one.id for one in study.experiments] == ["sweep"]


def test_parts_of_a_scale_replace_those_of_the_experiment():
    parts = [{"methods": ["fedavg", "fedcosr"], "heterogeneity": {"beta": 0.1}, "training": {"rounds": 3}}]
    study = paper(at_scale(seeds=[7], training={"rounds": 2}, experiments={"table1": {"cells": parts}}), scale="small")
    assert places(study, "table1") == [(row, "digits", "Dirichlet 0.1", 7) for row in ("fedavg", "fedcosr")]
    (table,) = (one for one in study.experiments if one.id == "table1")
    assert {cell.row.training.rounds for cell in table.cells} == {3}


def sub(**experiment):
    return lambda text: text["experiments"].update(a=experiment)


def at_scale(**scale):
    return lambda text: text["scales"].update(small=scale)


MISTAKES = {
    "a key of an experiment": (sub(heterogenity=[]), "^experiments.a: unknown key 'heterogenity'; did you mean"),
    "an old key": (sub(keep=["clusters"]), "^experiments.a: unknown key 'keep'; it is called 'artifacts' now"),
    "a setting laid over heterogeneities": (
        sub(heterogeneity={"keep": 0.5}),
        r"^experiments\.a\.heterogeneity: unknown setting 'keep'; it is called 'keep_fraction' now",
    ),
    "a setting in a part": (
        sub(cells=[{}, {"methods": {"fedprox": {"mu": -1}}}]),
        r"^experiments\.a\.cells\.1\.methods\.fedprox.*\.mu: must be at least 0",
    ),
    "a row": (sub(methods=["fedprx"]), r"^experiments\.a\.methods: the study has no row 'fedprx'; did you mean"),
    "rows of a wrong type": (sub(methods=[[]]), r"^experiments\.a\.methods\.0: expected a text or a mapping, got \[\]"),
    "rows of a part of a wrong type": (
        sub(cells=[{"methods": [{"fedavg": 1}]}]),
        r"^experiments\.a\.cells\.0\.methods\.0\.fedavg: expected a mapping or nothing, got 1",
    ),
    "rows at a scale of a wrong type": (
        at_scale(experiments={"table1": {"methods": ["fedavg", [1]]}}),
        r"^scales\.small\.experiments\.table1\.methods\.1: expected a text or a mapping",
    ),
    "settings of a row of a wrong type": (
        at_scale(methods={"fedavg": [1]}),
        r"^scales\.small\.methods\.fedavg: expected a mapping or nothing",
    ),
    "heterogeneities of a wrong type": (
        sub(heterogeneity=[[]]),
        r"^experiments\.a\.heterogeneity\.0: expected a mapping, got \[\]",
    ),
    "data of a wrong type": (sub(data={"name": []}), r"^experiments\.a\.data\.name: expected a text, got \[\]"),
    "a setting at a scale": (
        at_scale(training={"rounds": 0}),
        r"^scales\.small\.training\.rounds: must be at least 1",
    ),
    "an experiment of a scale": (
        at_scale(experiments={"tabel1": {}}),
        r"^scales\.small\.experiments\.tabel1: no experiment 'tabel1'; did you mean 'table1'",
    ),
    "an experiment that a scale has": (
        at_scale(only=["table1", "tabel1"]),
        r"^scales\.small\.only\.1: no experiment 'tabel1'; did you mean 'table1'",
    ),
    "a setting of a part of a scale": (
        at_scale(experiments={"table1": {"cells": [{"training": {"rounds": 0}}]}}),
        r"^scales\.small\.experiments\.table1\.cells\.0\.training\.rounds: must be at least 1",
    ),
    "a mistake of the study itself": (
        lambda text: text["training"].update(roundz=1),
        r"^training: unknown setting 'roundz'; did you mean 'rounds'",
    ),
    "a list without values": (sub(methods={"fedprox": {"mu": []}}), r"^experiments\.a\.methods\.fedprox\.mu: a list"),
    "a label that asks for what is not there": (
        sub(heterogeneity={"label": "{bta}"}),
        r"experiments\.a\.heterogeneity\.label: \{bta\} is no setting",
    ),
    "one label for several": (
        sub(heterogeneity={"beta": [1, 2], "label": "x"}),
        r"^experiments\.a\.heterogeneity\.label: duplicate label 'x'",
    ),
    "no such id": (lambda text: text["experiments"].update({"a b": {}}), r"'a b' must be letters"),
    "a table of rounds to nothing": (sub(show=[{"table": "rounds"}]), r"show\.0: the key 'target' is missing"),
    "an option of another table": (
        sub(show=[{"table": "costs", "target": 50}]),
        r"show\.0: unknown key 'target'; known: table",
    ),
    "neither a table nor a figure": (sub(show=[{"std": True}]), r"show\.0: the key 'table' is missing"),
    "a kind of table": (sub(show=[{"table": "acuracy"}]), r"show\.0\.table: 'acuracy' is not a choice; did you mean"),
    "a row to compare with": (
        sub(show=[{"table": "accuracy", "delta": "FedAgv"}]),
        r"^experiments\.a\.show\.0\.delta: the experiment has no row 'FedAgv'; did you mean 'FedAvg'",
    ),
    "a claim without words": (sub(claims=[{"leads": "FedAvg"}]), r"claims\.0: the key 'says' is missing"),
    "a claim of a rank that is none": (
        sub(claims=[{"says": "It is good.", "within": ["FedAvg", "second"]}]),
        r"claims\.0\.within\.1: expected a whole number, got 'second'",
    ),
    "assumed without a reason": (lambda text: text["assumed"].update(seeds=1), r"assumed\.seeds: expected a text"),
    "a scale called full": (lambda text: text["scales"].update(full={}), "scales"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_sentence_with_its_place(case):
    change, output = MISTAKES[case]
    with pytest.raises(UserError, match=output) as error:
        paper(change, scale="small" if "scale" in case and "full" not in case else "full")
    assert "\n" not in str(error.value)


def test_the_command_lines_texts_mean_what_they_say():
    assert paper(download="false").by_key.keys() == paper().by_key.keys()
    assert paper(download="false").downloads is None and paper(download="true").downloads
    with pytest.raises(UserError, match="download: expected true or false, got 'maybe'"):
        paper(download="maybe")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"scale": "smal"}, "scale: no scale 'smal'; did you mean 'small'"),
        ({"only": "tabel1"}, "only: no experiment 'tabel1'; did you mean 'table1'"),
    ],
)
def test_a_choice_that_is_not_there(choice, expected):
    with pytest.raises(UserError, match=expected):
        paper(**choice)
    with pytest.raises(UserError, match="the study has no experiments to choose from"):
        study_of(only="a")


def test_two_cells_in_one_place_are_refused_and_both_named():
    def change(text):
        text["experiments"]["table1"]["cells"][1].pop("heterogeneity")

    with pytest.raises(
        UserError, match=r"fedcosr, digits, Dirichlet 0.5, seed 0 would be two different cells"
    ) as error:
        paper(change)
    assert "cells.0" in str(error.value) and "cells.1" in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PRINTED.replace("metric", "metrik", 1), "has no column 'metric'"),
        (
            PRINTED + "\ntable1,Local,Digits,Dirichlet 0.5,,accuracy,80.20,,,2,\n",
            "csv, line 7: has the same .* as line 2",
        ),
        (
            PRINTED + "table1,Local,Digits,IID,,accuracy,80.10,,,2,a note, unquoted\n",
            "csv, line 6: has 12 fields, and .* 11",
        ),
        (PRINTED + "table1,Local,Digits,IID,,accuracy,80.10\n", "csv, line 6: has 7 fields, and the header has 11"),
        ("", "has no column 'experiment'"),
        (PRINTED.replace("table1", "table9"), r"paper\.csv: no experiment 'table9'; did you mean 'table1'"),
    ],
)
def test_printed_numbers_that_fit_nothing(text, expected):
    Path("paper.csv").write_text(text)
    with pytest.raises(UserError, match=expected):
        paper()


def test_printed_numbers_that_are_not_there():
    Path("paper.csv").unlink()
    with pytest.raises(UserError, match=r"published: paper\.csv cannot be read"):
        paper()


def test_what_a_scale_replaces_is_reported():
    def change(text):
        text["experiments"]["table1"] |= {"seeds": [0, 1, 2], "training": {"rounds": 9}}

    assert paper(change).notices == ()
    replaced = [f"scale 'small' replaces {name} of table1 (set in " for name in ("training.rounds", "seeds")]
    notices = sorted(paper(change, scale="small").notices)
    assert len(notices) == 2 and all(map(str.startswith, notices, sorted(replaced)))


def test_rows_that_a_mapping_adds_are_reported():
    notices = paper(sub(methods={"ditto": None, "fedprox": {"mu": 1}})).notices
    assert notices == ("experiments.a.methods: adds ditto to the 4 rows of the study; to show it alone, list names",)
    assert paper(sub(methods={"fedprox": {"mu": 1}})).notices == ()


def test_a_setting_laid_over_another_kind_names_the_entry():
    kinds = (
        "heterogeneity:\n- {partition: dirichlet, clients: 4}\n- {partition: pathological, classes: 3, clients: 4}\n"
    )
    laid = "methods: [local]\nexperiments:\n  a:\n    heterogeneity: {beta: 0.2}\n"
    study = f"name: kinds\ndata: digits\n{kinds}{laid}"
    Path("kinds.yaml").write_text(study)
    with pytest.raises(UserError) as error:
        planned_study(read(Path("kinds.yaml")))
    assert str(error.value).startswith("kinds.yaml:9: experiments.a.heterogeneity: unknown setting 'beta'; ")
    assert str(error.value).endswith("(laid over kinds.yaml:5: heterogeneity.1)")
