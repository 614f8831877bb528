"""``fedgrid compare``: a commented study of a method and those to compare it with."""

from pathlib import Path

import pytest
import yaml

from fedgrid.api.study_file import read_study
from fedgrid.cli import comparing
from fedgrid.cli.main import main
from fedgrid.grid.study.catalog import description
from fedgrid.loading import names

SCORES = {name: description("methods", name)["facts"]["score"] for name in names("methods")}


@pytest.fixture
def mine(folder, output):
    output("new-method", "mine")
    return folder / "mine.py"


@pytest.fixture
def study(output):
    """The study that the command writes, planned."""

    def call(*arguments, out="study-to-be.yaml"):
        output("compare", *arguments, "--out", out)
        return read_study(Path(out))

    return call


def test_a_study_of_a_method_and_all_others(mine, output):
    text = output("compare", "mine.py", "--data", "digits", "--against", "all")
    lines = text.splitlines()
    cells = 5 * (len(SCORES) + 1)  # seeds by rows: every method and mine
    size = f"{len(SCORES) + 1} methods, {cells} cells"
    assert lines[0] == f"compare-mine.yaml is written: {size}. To estimate its cost and to run it:"
    assert lines[1] == "  fedgrid plan --configfile compare-mine.yaml"
    assert lines[2] == "  fedgrid go compare-mine.yaml"
    study = read_study(Path("compare-mine.yaml"))
    assert list(study.rows)[:4] == ["mine", *comparing.ALWAYS] and set(study.rows) == {"mine", *SCORES}
    assert {cell.seed for cell in study.cells} == {0, 1, 2, 3, 4} and len(study.cells) == cells
    assert f"compare-mine: {cells} cells, 0 cached, {cells} to run" in output(
        "plan", "--configfile", "compare-mine.yaml"
    )
    written = Path("compare-mine.yaml").read_text()
    assert all(f"# {reason}" in written for reason in comparing.ALWAYS.values())


@pytest.mark.parametrize(
    ("against", "others"),
    [
        (["fedprox", "moon"], ["fedprox", "moon"]),
        (["fedavg", "all", "fedprox"], [*(n for n in SCORES if n not in comparing.ALWAYS)]),
        (["all", "global", "ditto"], [*(n for n, s in SCORES.items() if s == "global" and n != "fedavg"), "ditto"]),
        (["all split model: shared extractor, own", "all", "no", "federation"], ["fedas", "fedper", "fedrep"]),
    ],
)
def test_names_and_families_quoted_or_not(mine, study, against, others):
    assert list(study("mine.py", "--against", *against).rows) == ["mine", *comparing.ALWAYS, *others]


def test_the_options_are_those_of_the_study(mine, study):
    kinds = ["dirichlet:beta=0.5,clients=4", "pathological:classes=3,clients=5", "homogeneous:clients=4"]
    planned = study("fedprox", "--against", "mine.py", "--heterogeneity", *kinds, "--seeds", 3, "--rounds", 7)
    assert list(planned.rows) == ["fedprox", *comparing.ALWAYS, "mine"]
    assert {cell.row.training.rounds for cell in planned.cells} == {7}
    assert [*dict.fromkeys(cell.heterogeneity for cell in planned.cells)] == [
        "dirichlet-beta0.5-clients4",
        "pathological-classes3-clients5",
        "homogeneous-clients4",
    ]
    assert {cell.seed for cell in planned.cells} == {0, 1, 2}


@pytest.mark.parametrize(
    ("data", "model"),
    [(["digits"], "mlp"), (["cifar10"], "cnn"), (["cifar10", "digits"], "mlp"), (["attributes"], "image_text")],
)
def test_the_model_fits_the_data(folder, study, data, model):
    planned = study("fedprox", "--against", "moon", "--data", *data)
    assert {cell.model.name for cell in planned.cells} == {model}
    assert [*dict.fromkeys(cell.partition.data.name for cell in planned.cells)] == data


def test_a_folder_that_is_called_like_a_component_is_none(mine, study, folder):
    for name in ("mlp", "dirichlet", "studies"):
        (folder / name).mkdir()
    actual = study(
        "mine.py", "--data", "digits", "--model", "mlp", "--heterogeneity", "dirichlet", out="studies/a.yaml"
    )
    assert actual.cells[0].model.name == "mlp" and "Dirichlet" in actual.cells[0].partition.sentence


def test_a_study_in_another_folder_finds_the_method(mine, study, monkeypatch, folder):
    (folder / "elsewhere").mkdir()
    planned = study("mine.py", "--against", "fedprox", out="elsewhere/study.yaml")
    monkeypatch.chdir(folder / "elsewhere")
    again = read_study(Path("study.yaml"))
    assert {cell.key for cell in again.cells} == {cell.key for cell in planned.cells}
    assert yaml.safe_load(Path("study.yaml").read_text())["name"] == "study"


@pytest.mark.full
def test_a_title_may_be_any_text(mine, study):
    mine.write_text(
        mine.read_text().replace("class Mine(Method):", 'class Mine(Method):\n    title = "Mine: #1\\nof {all}"')
    )
    assert study("mine.py", "--against", "fedprox").title == "Mine: #1 of {all} and other methods"


def test_what_a_family_leaves_out_is_said(mine, capsys, monkeypatch):
    monkeypatch.setattr(comparing, "TRAINING", {"rounds": 2, "optimizer": "adam", "lr": 0.001})
    assert main(["compare", "mine.py"]) == 0
    left_out = "'all' leaves out apfl, apple, fml, perfedavg, pfedme, scaffold, which would take plain SGD"
    assert left_out in capsys.readouterr().err
    assert "scaffold" not in read_study(Path("compare-mine.yaml")).rows


@pytest.mark.parametrize(
    ("arguments", "complains"),
    [
        (["min.py"], "method 'min.py': no such file"),
        (["fedprx"], "unknown method 'fedprx'; did you mean 'fedprox'?"),
        (["fedprox", "--against", "fedavgg"], "unknown method 'fedavgg'; did you mean 'fedavg'?"),
        (["fedprox", "--against", "all", "personalized"], "no family 'personalized' of methods; did you mean"),
        (["fedprox", "--against", ""], "methods: must not be empty"),
        (["fedprox", "--seeds", "2"], "--seeds: must be at least 3, for with fewer no lead is tested; got 2"),
        (["fedprox", "--rounds", "0"], "training.rounds: must be at least 1"),
        (["fedprox", "--data", ""], "there is no folder ''"),
        (["fedprox", "--data", "digts"], "unknown data set 'digts'; did you mean 'digits'?"),
        (["fedprox", "--model", "cnn"], "'cnn' needs images of 16×16 at least"),
        (["fedprox", "--heterogeneity", "dirichlt"], "--heterogeneity: unknown kind 'dirichlt'; did you mean"),
        (["fedprox", "--heterogeneity", "dirichlet:betta=1"], "--heterogeneity: unknown setting 'betta'; did you mean"),
        (["fedprox", "--heterogeneity", "dirichlet:beta"], "--heterogeneity: 'beta' is not of the form name=value"),
        (["fedprox", "--out", "study.yaml"], "--out: study.yaml already exists"),
    ],
)
def test_mistakes_write_nothing(folder, complaint, untouched, arguments, complains):
    with untouched():
        assert complains in complaint("compare", *arguments)
