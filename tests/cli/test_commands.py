"""The commands, used as a user would."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import lacking
import pyarrow.parquet as pq
import pytest
import torch
from studies import FOUR_CELLS, plan_of, prepared, study_of

from fedgrid import loading
from fedgrid.cli.main import main
from fedgrid.grid.plan import manifest
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.method_lists import group
from fedgrid.jobs import cell
from fedgrid.loading import names

pytestmark = pytest.mark.usefixtures("folder")
FEDGRID = [sys.executable, "-m", "fedgrid.cli.main"]
SMALL = ["--clients", "4", "--rounds", "3", "--model-set", "hidden=16"]
KINDS = {"methods": "methods", "datasets": "data", "partitions": "partition", "models": "models"}
DYING = """
import os, signal, sys
from fedgrid.cli.main import main
from fedgrid.engine import rounds
from fedgrid.jobs import apart, cell, warm
run_apart = apart.run
def run(module, arguments, *given, **named):
    return cell.main(arguments) if module == "fedgrid.jobs.cell" else run_apart(module, arguments, *given, **named)
apart.run = run
warm.enter_job()
save = rounds.save_checkpoint
def save_and_die(*given):
    save(*given)
    os.kill(os.getpid(), signal.SIGKILL)
rounds.save_checkpoint = save_and_die
main(sys.argv[1:])
"""
"The command ``fedgrid`` with its job in the same process, which is killed as soon as there is a checkpoint."


@pytest.mark.parametrize("command", KINDS)
def test_lists_name_everything_with_source_and_settings(output, command):
    text, known = output(command), names(KINDS[command])
    if command == "methods":  # a line for each, by families
        lines = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
        assert sorted(lines) == known and all(": down " in line and ", scored " in line for line in lines.values())
        assert text.count("\n\n") == len({group(description("methods", name)["facts"]["family"]) for name in known})
        return
    assert known and all(f"{name}: " in text for name in known)
    assert command == "models" or text.count("source: ") == len(known)
    one = output(command, known[0])
    assert one.strip() in text


def test_a_hyperparameter_is_shown_with_default_limit_and_meaning(output):
    assert "mu = 0.01 (≥ 0)  Weight μ" in output("methods", "fedprox")


@pytest.mark.parametrize(
    "command",
    [
        *("", "init", "go", "run", "plan", "compare", "status", "logs", "explain", "report", "prune", "new-method"),
        *("check", "methods", "inspect", "docs"),
    ],
)
def test_help(capsys, command):
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert "usage: fedgrid" in text
    assert "examples:" in text


@pytest.mark.parametrize(
    "command, code, words",
    [
        ("plan --configfile study.yaml", 0, "4 cells, 0 cached, 4 to run"),
        pytest.param("status --configfile study.yaml", 0, "· 4 missing", marks=pytest.mark.full),
        pytest.param("explain fedavg s0 --configfile study.yaml", 0, "to be trained", marks=pytest.mark.full),
        pytest.param("partitions dirichlet", 0, "dirichlet: ", marks=pytest.mark.full),
        ("export-partition none.parquet out", 2, "fedgrid: none.parquet does not exist\n"),
        pytest.param("report --configfile none.yaml", 2, "fedgrid: none.yaml: cannot be read", marks=pytest.mark.full),
        ("prune", 2, "fedgrid: --results: there is no store in results\n"),
    ],
)
def test_as_a_process(command, code, words):
    run = subprocess.run([*FEDGRID, *command.split()], capture_output=True, text=True)
    assert run.returncode == code
    assert words in (run.stderr if code else run.stdout)


def test_run_writes_the_four_columns_and_says_the_scores(output):
    text = output("run", "fedprox", "--set", "mu=0", *SMALL, "--out", "f.parquet")
    assert "global" in text and "<- what its paper scores" in text
    table = pq.read_table("f.parquet")
    assert table.column_names == ["round", "client", "metric", "value"]
    facts = json.loads(table.schema.metadata[b"fedgrid"])
    assert facts["spec"]["method"] == {"name": "fedprox", "settings": {"mu": 0.0}}
    assert set(facts) >= {"key", "code", "status", "score", "rounds", "costs", "versions", "hardware", "finished"}
    sizes = facts["sizes"]
    assert sizes["head"] == (sizes["features"] + 1) * sizes["classes"] and sizes["extractor"] > 0
    assert "already holds this cell" in output("run", "fedprox", "--set", "mu=0", *SMALL, "--out", "f.parquet")


@pytest.mark.parametrize("method", ["fedavg", "fedsac"])
def test_run_needs_nothing_of_the_workflow(folder, method):
    """A GPU machine may have a checkout, and no more packages than training needs."""
    command = [*FEDGRID, "run", method, *SMALL, "--out", "f.parquet"]
    subprocess.run(command, check=True, env=lacking.environment(folder), capture_output=True)
    assert "accuracy_trained" in pq.read_table("f.parquet")["metric"].to_pylist()


@pytest.mark.parametrize(("method", "point"), [("ditto", "trained"), ("fedavg", "global"), ("fedavg_ft", "adapted")])
def test_progress_is_scored_where_the_method_is(method, point, folder, capsys):
    assert main(["run", method, *SMALL, "--results", str(folder / "results")]) == 0
    captured = capsys.readouterr()
    (mean,) = re.findall(
        rf"{point} +model after round 3: mean over clients +([\d.]+) %.*<- what its paper", captured.out
    )
    assert f"round 3/3  accuracy {mean} % ({point})" in captured.err


@pytest.mark.full
def test_a_killed_run_is_continued_by_the_same_command(folder, capsys):
    command = ["run", "fedcosr", *SMALL, "--checkpoint-every", "0.001", "--out"]
    run = subprocess.run([sys.executable, "-c", DYING, *command, "killed.parquet"], stderr=subprocess.PIPE, text=True)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert (folder / "killed.parquet.checkpoint").exists() and not (folder / "killed.parquet").exists()
    assert main([*command, "killed.parquet"]) == 0
    assert "continuing after round 1" in capsys.readouterr().err
    assert main([*command, "whole.parquet"]) == 0
    assert pq.read_table("killed.parquet").to_pydict() == pq.read_table("whole.parquet").to_pydict()
    assert not (folder / "killed.parquet.checkpoint").exists()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A store, and the results of a run that found no checkpoint."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert main(["run", "local", *SMALL, "--results", str(folder), "--out", str(folder / "whole.parquet")]) == 0
    return folder, pq.read_table(folder / "whole.parquet").to_pydict()


@pytest.mark.parametrize("damage", ["truncated", "of another cell", "no checkpoint at all"])
def test_a_bad_checkpoint_is_refused_in_one_sentence(folder, undisturbed, capsys, damage):
    content = {"truncated": {"key": "1", "rounds": 1}, "of another cell": {"key": "0"}}.get(damage, {"nothing": 1})
    file = folder / "f.parquet.checkpoint"
    torch.save(content, file)
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:200])
    results, whole = undisturbed
    assert main(["run", "local", *SMALL, "--results", str(results), "--out", "f.parquet"]) == 0
    output = capsys.readouterr().err
    assert output.count("starting over") == 1 and str(file.name) in output
    assert pq.read_table("f.parquet").to_pydict() == whole


@pytest.fixture
def descriptions(tmp_path_factory, monkeypatch):
    """Where descriptions are kept: a folder in which there is none."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "fedgrid/descriptions"


def test_a_method_outside_the_package(output, folder, descriptions):
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/mathematics.py").write_text("def half(x):\n    return x / 2\n")
    (folder / "elsewhere/mine.py").write_text(
        '"""Mine."""\nfrom mathematics import half\nfrom fedgrid.methods.fedavg import FedAvg as Base\n\n\n'
        "class Mine(Base):\n    def loss(self, *given):\n        return half(super().loss(*given))\n"
    )
    text = output("run", "elsewhere/mine.py", *SMALL)
    assert "Mine on digits" in text and "cells/mine/" in text
    study = FOUR_CELLS.replace("[local, fedavg]", "{mine: {method: elsewhere/mine.py}}")
    study = (
        study.replace("hidden: 16, features: 8", "hidden: 16").replace("0.5", "0.1").replace("rounds: 2", "rounds: 3")
    )
    (folder / "study.yaml").write_text(study)
    assert "2 cells, 1 cached" in output("plan", "--configfile", "study.yaml")
    (file,) = (folder / "results/store/cells/mine").rglob("*.parquet")
    key = file.stem.removeprefix("s0-")
    assert f"key        {key}" in output("explain", key, "--configfile", "study.yaml")
    (folder / "elsewhere/mathematics.py").write_text("def half(x):\n    return x / 4\n")
    assert "2 cells, 0 cached" in output("plan", "--configfile", "study.yaml")
    text = output("explain", key, "--configfile", "study.yaml")
    assert text.rstrip().endswith("; other than now: mathematics")
    assert len(list(descriptions.glob("methods/mine-*.json"))) == 2


@pytest.mark.full
@pytest.mark.usefixtures("descriptions")
def test_two_outside_methods_may_each_have_a_helper_of_the_same_name(output, folder):
    for name, setting in (("ma", "strength"), ("mb", "power")):
        (folder / name).mkdir()
        (folder / name / "helper.py").write_text(
            "from fedgrid.components import hp\nfrom fedgrid.methods.fedavg import FedAvg\n\n\n"
            f"class Base(FedAvg):\n    {setting}: float = hp(1.0)\n"
        )
        (folder / name / f"{name}.py").write_text('"""It."""\nfrom helper import Base\n\n\nclass It(Base):\n    pass\n')
    methods = "{ma: {method: ma/ma.py, strength: 2}, mb: {method: mb/mb.py, power: 1e-3}}"
    (folder / "study.yaml").write_text(FOUR_CELLS.replace("[local, fedavg]", methods))
    assert "4 cells, 0 cached" in output("plan", "--configfile", "study.yaml")


@pytest.fixture
def installed(folder, monkeypatch):
    """A package that announces a method; the folder of its methods."""
    methods = folder / "site/theirs/methods"
    methods.mkdir(parents=True)
    (folder / "site/theirs-0.1.dist-info").mkdir()
    (folder / "site/theirs-0.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 0.1\n")
    announcement = "[fedgrid.methods]\nfedtheirs = theirs.methods.mine\n"
    (folder / "site/theirs-0.1.dist-info/entry_points.txt").write_text(announcement)
    (folder / "site/theirs/__init__.py").write_text("")
    (methods / "__init__.py").write_text("HALF = 0.5\n")
    (methods / "mine.py").write_text(
        '"""It."""\nfrom fedgrid.methods.fedavg import FedAvg\nfrom . import HALF\n\n\nclass It(FedAvg):\n'
        "    def loss(self, *given):\n        return HALF * super().loss(*given)\n"
    )
    monkeypatch.syspath_prepend(str(folder / "site"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # of processes
    loading._announced.cache_clear()
    yield methods
    loading._announced.cache_clear()
    for module in [name for name in sys.modules if name.partition(".")[0] == "theirs"]:
        del sys.modules[module]


@pytest.mark.full
@pytest.mark.usefixtures("descriptions")
def test_a_method_that_an_installed_package_announces(installed, output, complaint):
    command = ["run", "fedtheirs", *SMALL, "--out", "f.parquet"]
    assert "It on digits" in output(*command)
    (installed / "__init__.py").write_text("HALF = 0.25\n")
    assert "holds another cell" in complaint(*command)


def test_artifacts_are_beside_the_results(output, folder):
    run = ["run", "cfl", *SMALL, "--out", "o.parquet", "--artifacts", "clusters"]
    output(*run)
    assert pq.read_table(folder / "o.clusters.parquet")["cluster"].to_pylist() == [0] * 4
    assert "already holds this cell" in output(*run)
    (folder / "o.clusters.parquet").unlink()
    assert "already holds this cell" not in output(*run)
    assert (folder / "o.clusters.parquet").is_file()


def test_code_that_was_edited_since_planning_is_refused(capsys):
    study = study_of(methods=["local"], seeds=[0])
    (experiment,) = study.experiments
    other = [replace(experiment.cells[0], code="0" * 16)]
    planned = replace(study, experiments=[replace(experiment, cells=other)])
    (one,) = prepared(planned).cells
    assert cell.main([str(plan_of(planned)), one.key]) == 2
    assert "edited since this cell was planned" in capsys.readouterr().err
    assert json.loads(one.status.read_text())["state"] == "failed"
    assert not one.file.exists()


def test_the_manifest_says_what_each_method_was_trained_with():
    actual = study_of(methods={"fedavg": {"training": {"lr": 0.5}}, "local": None})
    study = manifest.content(actual, actual.experiments[0]).study
    assert study.protocol["lr"] == 0.05
    assert study.methods["fedavg"].settings == {"training.lr": 0.5}
    assert study.methods["local"].settings == {}
