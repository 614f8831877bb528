"""A study from Python: its cells, its plan, its results, and a cell or a partition alone."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from studies import FOUR_CELLS

import fedgrid
from fedgrid import EXPORTED
from fedgrid.errors import UserError

METHODS = ["Local", "FedAvg", "Ditto", "FedCoSR"]
KINDS = ["Dirichlet β=0.1, 8 clients", "pathological (2 classes each), 8 clients"]


def test_the_stub_names_what_is_exported():
    stub = Path(fedgrid.__file__).with_suffix(".pyi").read_text()
    assert all(f"from fedgrid.api.{module} import {name} as {name}\n" in stub for name, module in EXPORTED.items())
    assert stub.count("import ") == len(EXPORTED) and set(EXPORTED) <= set(dir(fedgrid))
    assert all(callable(getattr(fedgrid, name)) for name in EXPORTED)


def test_importing_fedgrid_imports_neither_torch_nor_pandas():
    code = "import sys, fedgrid; print({'torch', 'pandas'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_cells_and_what_is_left_of_them(project):
    study = fedgrid.study()
    assert len(study.cells) == 16 and set(study.cells.state) == {"done"}
    assert study.plan().empty and "seconds" in study.plan()
    text = Path("config/study.yaml").read_text()
    Path("config/more.yaml").write_text(text.replace("seeds:\n- 0", "seeds:\n- 7\n- 0"))
    more = fedgrid.study("config/more.yaml")
    plan = more.plan()
    assert len(plan) == 8 and set(plan.seed) == {7} and (plan.seconds > 0).all() and plan.measured.all()
    assert more.cells.state.value_counts().to_dict() == {"done": 16, "missing": 8}


def test_results_have_the_titles_of_the_page(project):
    results = fedgrid.study().results()
    assert results.title == "Handwritten digits, 8 clients"
    table = results.tables["accuracy"]
    assert table.printed.index.tolist() == METHODS and table.printed.index.name == "Method"
    assert table.printed.columns.get_level_values(1).unique().tolist() == KINDS
    page = Path("results/digits/tables/accuracy.html").read_text()
    assert table.html == page == table._repr_html_() and table.caption
    assert set(table.numbers.method) == set(METHODS) and set(table.numbers.heterogeneity) == set(KINDS)


def test_scores_are_those_that_the_table_averages(project):
    results = fedgrid.results("results/digits")
    names = ["method", "heterogeneity"]
    means = results.scores.groupby(names).accuracy.mean()
    shown = results.tables["accuracy"].numbers.set_index(names).accuracy
    pd.testing.assert_series_equal(means.sort_index(), shown.sort_index(), check_index_type=False)


def test_values_and_cells_are_tidy(project):
    results = fedgrid.results("results/digits")
    assert list(results.values) == ["method", "data", "heterogeneity", "seed", "round", "client", "metric", "value"]
    assert set(results.values["method"]) == set(METHODS)
    cells = results.cells
    assert len(cells) == 16 and (cells.seconds > 0).all() and (cells.memory > 0).all()
    assert set(cells.key) == set(fedgrid.study().cells.key)


def unfinished():
    """A study of which there is a partial report."""
    folder = Path("unfinished/partial")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.parquet").touch()
    return "unfinished"


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: fedgrid.results("results"), "results: name one of these in it: digits"),
        (lambda: fedgrid.results(unfinished()), "the study is not finished; unfinished/partial has what is"),
        (lambda: fedgrid.results("nowhere"), "nowhere: no run has made results there"),
        (lambda: fedgrid.study("none.yaml"), "none.yaml: cannot be read"),
        (lambda: fedgrid.study(scale="large"), "no scale 'large'"),
        (lambda: fedgrid.study().results("table9"), "no experiment 'table9'"),
        (lambda: fedgrid.study().explain("FedSaC"), "explain: no cell of digits fits 'FedSaC'"),
        (lambda: fedgrid.study().train("ditto"), "4 cells are of method ditto"),
        (lambda: fedgrid.study().train("fedsac"), "0 cells are of method fedsac"),
        (lambda: fedgrid.train("fedavg", {"mu": 1}), "methods.fedavg: unknown setting 'mu'"),
        (lambda: fedgrid.make_partition("digits", {"partition": "dirichlet", "beta": -1}), "beta"),
        (lambda: fedgrid.read_partition("config/study.yaml"), "config/study.yaml"),
    ],
)
def test_a_mistake_is_one_sentence(project, call, problem):
    with pytest.raises(UserError) as raised:
        call()
    assert problem in str(raised.value) and "\n" not in str(raised.value)


def test_a_file_that_was_spoilt_since_is_one_sentence(working_folder, monkeypatch):
    file = Path("study.yaml")
    file.write_text(FOUR_CELLS)
    study = fedgrid.study(file)
    file.write_bytes(FOUR_CELLS.encode("utf-16"))
    monkeypatch.setattr(subprocess, "run", None)  # Snakemake is not started
    with pytest.raises(UserError, match=r"^study\.yaml: not YAML \(byte 0xff at position 0 is not UTF-8\)$"):
        study.run()


def test_a_number_is_explained_in_the_words_of_its_table(project):
    study = fedgrid.study()
    text = study.explain("FedCoSR", "pathological")
    cells = study.cells[(study.cells["method"] == "fedcosr") & study.cells.heterogeneity.str.startswith("patho")]
    assert len(cells) == 2 and all(key in text for key in cells.key)
    assert "fedgrid.engine.rounds" in study.explain("FedCoSR", "pathological", code=True)
    assert "fedgrid.engine.rounds" not in text


def test_a_cell_of_a_study_is_trained_once(project, capfd):
    cell = fedgrid.study().train("fedcosr", heterogeneity=fedgrid.study().cells.heterogeneity[0], seed=1)
    assert cell.metadata["spec"]["method"]["name"] == "fedcosr" and "round" not in capfd.readouterr().err
    assert {"round", "client", "metric", "value"} <= set(cell.values)


def test_a_cell_that_no_study_names_is_trained_and_then_read(working_folder, capfd):
    setting = {"heterogeneity": {"partition": "homogeneous", "clients": 2}, "training": {"rounds": 1}}
    first = fedgrid.train("fedprox", {"mu": 0.5}, **setting)
    assert "round 1/1" in capfd.readouterr().err
    second = fedgrid.train("fedprox", {"mu": 0.5}, **setting)
    assert "round 1/1" not in capfd.readouterr().err
    assert first.file == second.file and first.values.equals(second.values)
    assert first.metadata["spec"]["method"]["settings"] == {"mu": 0.5}


def test_a_partition_is_made_once_and_read_by_its_file(working_folder):
    made = fedgrid.make_partition("digits", {"partition": "dirichlet", "beta": 0.3, "clients": 5}, seed=1)
    read = fedgrid.read_partition(made.file)
    assert read.rows.equals(made.rows) and made.metadata["clients"] == 5
    train = made.rows[made.rows.split == "train"]
    assert train.groupby("client").size().tolist() == made.statistics["sizes"]["train"]
