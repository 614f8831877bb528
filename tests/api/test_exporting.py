"""What `fedgrid export` writes, read back by each library's own reader."""

import csv
import importlib
import re
from pathlib import Path

import pandas as pd
import pytest
from commands import complaint
from toys import Study

import fedgrid
from fedgrid.api.exporting.runs import runs_of
from fedgrid.cli.main import main

FOLDER = "results/digits"
RUN = ("fedcosr", "digits", "dirichlet-beta0.1-clients8", "s1")
NAME = "/".join(RUN)


@pytest.fixture
def results(project):
    return fedgrid.results(FOLDER)


@pytest.fixture
def expected(results):
    """The curves of one cell by metric: a frame with `round`, `mean`, `std`, `total`."""
    curves = results.curves
    cell = curves[(curves.method == "FedCoSR") & curves.heterogeneity.str.startswith("Dir") & (curves.seed == 1)]
    return dict(iter(cell.groupby("metric")))


@pytest.fixture
def score(results):
    """The accuracy of that cell, as tables have it."""
    scores = results.scores
    (row,) = scores[
        (scores.method == "FedCoSR") & scores.heterogeneity.str.startswith("Dir") & (scores.seed == 1)
    ].itertuples()
    return row.accuracy


def export(target, out, capsys=None):
    assert main(["export", FOLDER, "--to", target, "--out", str(out)]) == 0
    return capsys.readouterr().out if capsys else ""


def test_curves_are_the_means_that_tables_and_figures_show(results):
    names, curves, values = ["method", "heterogeneity", "seed", "round"], results.curves, results.values
    sent = values[values.metric == "bytes_up"].groupby(names).value.sum()
    totals = curves[curves.metric == "bytes_up"].set_index(names).total
    pd.testing.assert_series_equal(totals.sort_index(), sent.sort_index(), check_names=False, check_index_type=False)
    trained = curves[(curves.metric == "accuracy_trained") & (curves["round"] == 2) & (curves.method == "Local")]
    scores = results.scores[results.scores.method == "Local"]
    assert sorted(trained["mean"]) == pytest.approx(sorted(scores.accuracy))
    assert sorted(trained["std"]) == pytest.approx(sorted(scores.std_clients))
    assert {"loss_trained", "loss_received"} <= set(curves.metric) and "test_samples" not in set(curves.metric)


def test_tensorboard_reads_the_runs(expected, score, tmp_path, capsys):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    hint = export("tensorboard", tmp_path, capsys)
    assert hint == f"16 runs written: tensorboard --logdir {tmp_path}\n"
    export("tensorboard", tmp_path)  # again: nothing comes twice
    assert len({file.parent for file in tmp_path.rglob("events.*")}) == 16
    events = reader.EventAccumulator(str(tmp_path.joinpath(*RUN)), size_guidance={"scalars": 0})
    events.Reload()
    for tag, metric, value in (
        ("accuracy/trained", "accuracy_trained", "mean"),
        ("accuracy_std/trained", "accuracy_trained", "std"),
        ("loss/received", "loss_received", "mean"),
        ("bytes/up", "bytes_up", "total"),
    ):
        scalars, frame = events.Scalars(tag), expected[metric]
        assert [scalar.step for scalar in scalars] == frame["round"].tolist()
        assert [scalar.value for scalar in scalars] == pytest.approx(frame[value].tolist(), rel=1e-6)
    assert events.Scalars("final/accuracy")[0].value == pytest.approx(score, rel=1e-6)
    assert "_hparams_/session_start_info" in events.summary_metadata
    parameters = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert b"method.gamma" in parameters and b"training.lr" in parameters and b"partition.beta" in parameters


def test_mlflow_reads_the_runs(expected, score, tmp_path, capsys):
    pytest.importorskip("alembic")
    mlflow = pytest.importorskip("mlflow")
    assert "16 runs written: mlflow ui --backend-store-uri sqlite:///" in export("mlflow", tmp_path, capsys)
    assert "0 runs written, 16 are there already" in export("mlflow", tmp_path, capsys)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("Handwritten digits, 8 clients")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    run = runs[NAME]
    assert len(runs) == 16 and run.info.status == "FINISHED"
    history = {m.step: m.value for m in client.get_metric_history(run.info.run_id, "accuracy/trained")}
    assert history == expected["accuracy_trained"].set_index("round")["mean"].to_dict()
    assert run.data.metrics["final/accuracy"] == score
    assert run.data.params["method"] == "fedcosr" and run.data.params["training.rounds"] == "2"
    assert re.fullmatch("[0-9a-f]{16}", run.data.tags["fedgrid.key"])
    assert run.data.tags["fedgrid.status"] == "ok" and "fedgrid.version.torch" in run.data.tags


def history_of(file):
    """Rows of an offline run of wandb, which is a log of LevelDB: blocks of 32 KiB with parts of records."""
    internal = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    content, offset, record, rows = file.read_bytes(), 7, b"", []
    while offset + 7 <= len(content):
        if 2**15 - offset % 2**15 < 7:  # no room for a header: the block's end is padding
            offset += 2**15 - offset % 2**15
            continue
        size, kind = int.from_bytes(content[offset + 4 : offset + 6], "little"), content[offset + 6]
        record = (record if kind in (3, 4) else b"") + content[offset + 7 : offset + 7 + size]
        offset += 7 + size
        if kind in (1, 4):
            message = internal.Record.FromString(record)
            if message.WhichOneof("record_type") == "history":
                rows.append({i.key or "/".join(i.nested_key): i.value_json for i in message.history.item})
    return rows


def test_wandb_has_the_runs_offline(expected, tmp_path, capsys):
    pytest.importorskip("wandb")
    assert "16 runs written: wandb sync" in export("wandb-offline", tmp_path, capsys)
    assert "0 runs written, 16 are there already" in export("wandb-offline", tmp_path, capsys)
    (cell,) = [cell for cell in fedgrid.study().cells.itertuples() if _is_run(cell)]
    (file,) = tmp_path.glob(f"wandb/offline-run-*-fedcosr-{cell.key}/*.wandb")
    rows = history_of(file)
    trained = [float(row["accuracy/trained"]) for row in rows if "accuracy/trained" in row]
    assert trained == expected["accuracy_trained"]["mean"].tolist()


def _is_run(cell):
    return (cell.method, cell.heterogeneity, f"s{cell.seed}") == (RUN[0], RUN[2], RUN[3])


def test_csv_files_have_every_number(results, tmp_path):
    export("csv", tmp_path)
    assert {file.stem for file in tmp_path.iterdir()} == {"accuracy", "costs", "cells", "scores", "curves", "values"}
    with open(tmp_path / "values.csv", newline="") as file:
        assert sum(1 for _ in csv.reader(file)) == len(results.values) + 1
    assert (tmp_path / "accuracy.csv").read_text() == Path(FOLDER, "tables/accuracy.csv").read_text()
    assert pd.read_csv(tmp_path / "scores.csv").accuracy.tolist() == results.scores.accuracy.tolist()


def test_a_workbook_has_a_sheet_a_table_with_its_caption(results, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    export("xlsx", tmp_path)
    book = openpyxl.load_workbook(tmp_path / "results.xlsx", read_only=True)
    tables = ["accuracy", "accuracy numbers", "costs", "costs numbers"]
    assert book.sheetnames == [*tables, "cells", "scores", "curves", "values"]
    printed = results.tables["accuracy"]
    rows = list(book["accuracy"].iter_rows(values_only=True))
    assert rows[0][0] == printed.caption
    assert [row[0] for row in rows if row and row[0] in printed.printed.index] == printed.printed.index.tolist()
    first = next(row for row in rows if row and row[0] == "Local")
    assert first[1].startswith(printed.printed.iloc[0, 0])
    values = list(book["values"].iter_rows(values_only=True))
    assert list(values[0]) == list(results.values) and len(values) == len(results.values) + 1
    assert values[-1] == tuple(results.values.iloc[-1])


def test_a_text_that_looks_like_a_formula_stays_a_text(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    from fedgrid.api.exporting.spreadsheets import Workbook

    book = Workbook("=1+1")
    book.add("a", [["=1+1", "a\x01b", None, 2.5, True]])
    book.save(tmp_path / "a.xlsx")
    (cells,) = openpyxl.load_workbook(tmp_path / "a.xlsx")["a"].iter_rows()
    assert [cell.value for cell in cells] == ["=1+1", "a\N{REPLACEMENT CHARACTER}b", None, 2.5, True]
    assert cells[0].data_type == "s"


def test_what_is_finished_of_a_study_goes_out_by_its_file(project, tmp_path, capsys):
    text = Path("config/study.yaml").read_text().replace("name: digits", "name: m")
    Path("config/more.yaml").write_text(text.replace("seeds:\n- 0", "seeds:\n- 7\n- 0"))
    assert main(["export", "--configfile", "config/more.yaml", "--to", "csv", "--out", str(tmp_path)]) == 0
    cells = pd.read_csv(tmp_path / "cells.csv")
    assert cells.status.value_counts().to_dict() == {"ok": 16, "missing": 8}
    assert not Path("results/m").exists()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["results/none", "--to", "csv"], "results/none: no run has made results there"),
        (
            ["results/digits", "--to", "tensorboard", "--follow"],
            "--follow: a results folder is only complete after a run",
        ),
        (["--to", "csv", "--follow"], "--follow: csv is written once"),
        (["results/digits", "--to", "word"], "invalid choice: 'word'"),
        (["results/digits", "--to", "csv", "--out", "config/study.yaml"], "--out: cannot write in config/study.yaml"),
    ],
)
def test_a_mistake_is_one_sentence(project, arguments, sentence, capsys):
    assert sentence in complaint(capsys, "export", *arguments)


@pytest.fixture
def missing(monkeypatch):
    """Makes a library one that is not installed."""
    found = importlib.import_module

    def make(library):
        def imported(name, *package):
            if name == library:
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)
            return found(name, *package)

        monkeypatch.setattr(importlib, "import_module", imported)

    return make


@pytest.mark.parametrize(
    ("arguments", "module", "extra"),
    [
        (["export", FOLDER, "--to", "tensorboard"], "torch.utils.tensorboard", "tensorboard"),
        (["export", FOLDER, "--to", "mlflow"], "alembic", "mlflow"),
        (["export", FOLDER, "--to", "wandb-offline"], "wandb", "wandb"),
        (["export", FOLDER, "--to", "xlsx"], "openpyxl", "xlsx"),
        (["bundle"], "rocrate", "archive"),
    ],
)
def test_a_missing_library_is_one_sentence_with_its_extra(project, arguments, module, extra, tmp_path, missing, capsys):
    missing(module)
    error = complaint(capsys, *arguments, "--out", tmp_path / "out")
    assert error.endswith(f" needs {module}: pip install 'fedgrid[{extra}]'\n")


def test_a_run_has_the_training_settings_of_its_row(tmp_path):
    study = Study(tmp_path, seeds=[0])
    study.study["protocol"] = {"lr": 0.05, "rounds": 1}
    study.method("ditto", lam=0.5, **{"training.lr": 0.2})
    study.cell("ditto", "dir", 0, {1: [0.5, 0.6]})
    results = study.load()
    (run,) = runs_of(results, results.cells)
    parameters = {name: value for name, value in run.parameters.items() if name.startswith(("method", "training"))}
    assert parameters == {"method": "ditto", "method.lam": 0.5, "training.lr": 0.2, "training.rounds": 1}
