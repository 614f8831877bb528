"""The commands, used as a user would."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from studies import FOUR_CELLS

from fedgrid.cli.main import main
from fedgrid.grid import manifest
from fedgrid.grid.study import read, resolved
from fedgrid.grid.validation import checked
from fedgrid.loading import names

SMALL = ["--clients", "4", "--rounds", "3", "--model-set", "hidden=16"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(FOUR_CELLS)
    return tmp_path


def said(capsys, *arguments):
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command, kind", [("methods", "methods"), ("datasets", "data"), ("partitions", "partition")])
def test_lists_name_everything_with_source_and_settings(capsys, command, kind):
    text = said(capsys, command)
    for name in names(kind):
        assert f"{name}: " in text
    assert text.count("source: ") == len(names(kind))
    one = said(capsys, command, names(kind)[0])
    assert one.strip() in text


def test_a_hyperparameter_is_shown_with_default_limit_and_meaning(capsys):
    assert "mu = 0.01 (≥ 0)  Weight μ" in said(capsys, "methods", "fedprox")


@pytest.mark.parametrize(
    "command", [[], ["run"], ["plan"], ["status"], ["report"], ["prune"], ["new-method"], ["methods"]]
)
def test_help(capsys, command):
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert "usage: fedgrid" in text
    assert "examples:" in text


def test_plan_run_status_prune(capsys, folder, monkeypatch):
    assert "4 cells, 0 cached, 4 to run" in said(capsys, "plan", "--configfile", "study.yaml")
    manifest.write(resolved(checked(read(folder / "study.yaml"))))  # as a run of the workflow does
    run = ["--beta", "0.5", "--clients", "4", "--rounds", "2", "--model-set", "hidden=16", "--model-set", "features=8"]
    assert "ok, 2 rounds" in said(capsys, "run", "local", *run)
    assert "4 cells, 1 cached, 3 to run" in said(capsys, "plan", "--configfile", "study.yaml")
    state = folder / "results/store/status"
    cells = json.loads((folder / "results/s/manifest.json").read_text())["cells"]
    state.mkdir(parents=True)
    noted = {"rounds": 2, "round": 1, "time": time.time(), "host": __import__("socket").gethostname()}
    files = [state / f"{cell['key']}.json" for cell in cells]
    files[1].write_text(json.dumps(noted | {"state": "running", "pid": os.getpid()}))
    files[2].write_text(json.dumps(noted | {"state": "failed", "reason": "MemoryError: too big", "pid": 1}))
    files[3].write_text(json.dumps(noted | {"state": "running", "pid": 2**22 + 1}))
    text = said(capsys, "status", "--configfile", "study.yaml")
    assert "local   ✓▶" in text and "fedavg  ✗✗" in text
    assert "✓ 1 done, ! 0 diverged, ▶ 1 running, ○ 0 queued, ✗ 2 failed, · 0 missing" in text
    assert "MemoryError: too big" in text and "was killed in round 1 of 2" in text
    assert "0 of 8 files" in said(capsys, "prune")
    said(capsys, "run", "fedprox", *run)
    text = said(capsys, "prune")
    assert text.count("not needed") == 1 and "cells/fedprox" in text
    monkeypatch.chdir("/")  # where it is called from does not matter
    assert said(capsys, "prune", "--results", str(folder / "results")).count("not needed") == 1
    monkeypatch.chdir(folder)
    assert "deleted" in said(capsys, "prune", "--delete")
    assert "0 of 8 files" in said(capsys, "prune")


def test_run_writes_the_four_columns_and_says_the_scores(capsys, folder):
    text = said(capsys, "run", "fedprox", "--set", "mu=0", *SMALL, "--out", "f.parquet")
    assert "global" in text and "<- what its paper scores" in text
    table = pq.read_table("f.parquet")
    assert table.column_names == ["round", "client", "metric", "value"]
    facts = json.loads(table.schema.metadata[b"fedgrid"])
    assert facts["spec"]["method"] == {"name": "fedprox", "settings": {"mu": 0.0}}
    assert set(facts) >= {"key", "code", "status", "score", "rounds", "costs", "versions", "hardware", "finished"}
    assert "holds this cell already" in said(capsys, "run", "fedprox", "--set", "mu=0", *SMALL, "--out", "f.parquet")


def test_a_killed_run_is_continued_by_the_same_command(folder):
    command = [sys.executable, "-m", "fedgrid.cli.main", "run", "fedcosr", "--clients", "4", "--rounds", "60"]
    command += ["--checkpoint-every", "0.05", "--out"]
    run = subprocess.Popen([*command, "killed.parquet"], stderr=subprocess.PIPE)
    patience = time.monotonic() + 60
    while not (folder / "killed.parquet.checkpoint").exists() and time.monotonic() < patience:
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert not (folder / "killed.parquet").exists()
    again = subprocess.run([*command, "killed.parquet"], capture_output=True, text=True, check=True)
    assert "continuing after round" in again.stderr
    subprocess.run([*command, "whole.parquet"], capture_output=True, check=True)
    assert pq.read_table("killed.parquet").to_pydict() == pq.read_table("whole.parquet").to_pydict()
    assert not (folder / "killed.parquet.checkpoint").exists()


@pytest.mark.parametrize("damage", ["truncated", "of another cell", "no checkpoint at all"])
def test_a_bad_checkpoint_is_refused_in_one_sentence(folder, capsys, damage):
    import torch

    content = {"truncated": None, "of another cell": {"key": "0"}, "no checkpoint at all": {"nothing": 1}}[damage]
    file = folder / "f.parquet.checkpoint"
    torch.save({"key": "1", "rounds": 1} if content is None else content, file)
    if content is None:
        file.write_bytes(file.read_bytes()[:200])
    assert main(["run", "local", *SMALL, "--out", "f.parquet"]) == 0
    said = capsys.readouterr().err
    assert said.count("starting over") == 1 and str(file.name) in said
    assert main(["run", "local", *SMALL, "--out", "g.parquet"]) == 0
    assert pq.read_table("f.parquet").to_pydict() == pq.read_table("g.parquet").to_pydict()


def test_a_method_outside_the_package(capsys, folder):
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/mathematics.py").write_text("def half(x):\n    return x / 2\n")
    (folder / "elsewhere/mine.py").write_text(
        '"""Mine."""\nfrom mathematics import half\nfrom fedgrid.methods.fedavg import FedAvg as Base\n\n\n'
        "class Mine(Base):\n    def loss(self, *given):\n        return half(super().loss(*given))\n"
    )
    text = said(capsys, "run", "elsewhere/mine.py", *SMALL)
    assert "Mine on digits" in text and "cells/mine/" in text
    study = FOUR_CELLS.replace("[local, fedavg]", "{mine: {method: elsewhere/mine.py}}")
    (folder / "study.yaml").write_text(study.replace("hidden: 16, features: 8", "hidden: 16").replace("0.5", "0.1"))
    (folder / "study.yaml").write_text((folder / "study.yaml").read_text().replace("rounds: 2", "rounds: 3"))
    assert "2 cells, 1 cached" in said(capsys, "plan", "--configfile", "study.yaml")
    (folder / "elsewhere/mathematics.py").write_text("def half(x):\n    return x / 4\n")
    command = [sys.executable, "-m", "fedgrid.cli.main", "plan", "--configfile", "study.yaml"]
    assert "2 cells, 0 cached" in subprocess.run(command, capture_output=True, text=True).stdout


def test_two_outside_methods_may_each_have_a_helper_of_the_same_name(capsys, folder):
    for name, setting in (("ma", "strength"), ("mb", "power")):
        (folder / name).mkdir()
        (folder / name / "helper.py").write_text(
            "from fedgrid.components import hp\nfrom fedgrid.methods.fedavg import FedAvg\n\n\n"
            f"class Base(FedAvg):\n    {setting}: float = hp(1.0)\n"
        )
        (folder / name / f"{name}.py").write_text('"""It."""\nfrom helper import Base\n\n\nclass It(Base):\n    pass\n')
    methods = "{ma: {method: ma/ma.py, strength: 2}, mb: {method: mb/mb.py, power: 1e-3}}"
    (folder / "study.yaml").write_text(FOUR_CELLS.replace("[local, fedavg]", methods))
    assert "4 cells, 0 cached" in said(capsys, "plan", "--configfile", "study.yaml")


def test_a_method_that_an_installed_package_announces(folder):
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
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder / "site"), *sys.path])}
    command = [sys.executable, "-m", "fedgrid.cli.main", "run", "fedtheirs", *SMALL, "--out", "f.parquet"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (methods / "__init__.py").write_text("HALF = 0.25\n")
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 2 and "holds another cell" in run.stderr


@pytest.mark.parametrize("kind", ["methods", "models", "partition", "data"])
def test_every_component_is_listed(capsys, kind):
    command = {"partition": "partitions", "data": "datasets"}.get(kind, kind)
    said_ = said(capsys, command)
    assert names(kind) and all(f"{name}:" in said_ for name in names(kind))


def test_artifacts_stand_beside_the_results(capsys, folder):
    run = ["run", "cfl", *SMALL, "--out", "o.parquet", "--artifacts", "clusters"]
    said(capsys, *run)
    assert pq.read_table(folder / "o.clusters.parquet")["cluster"].to_pylist() == [0] * 4
    assert "holds this cell already" in said(capsys, *run)
    (folder / "o.clusters.parquet").unlink()
    assert "holds this cell already" not in said(capsys, *run)
    assert (folder / "o.clusters.parquet").is_file()


def test_code_that_was_edited_since_planning_is_refused(capsys, folder):
    from fedgrid.jobs import cell

    said(capsys, "run", "local", *SMALL)  # builds the data and the partition
    study = resolved(
        checked(read(folder / "study.yaml") | {"training": {"rounds": 3}, "model": {"name": "mlp", "hidden": 16}})
    )
    job = study.cells[0].job()
    options = ["--out", "o.parquet", "--checkpoint", "c", "--status", "s.json"]
    job["code"]["fingerprint"] = "0" * 16
    assert cell.main([json.dumps(job), *options]) == 2
    assert "edited since this cell was planned" in capsys.readouterr().err
    assert json.loads((folder / "s.json").read_text())["state"] == "failed"
    assert not (folder / "o.parquet").exists()


def test_the_manifest_says_what_each_method_was_trained_with(folder):
    text = FOUR_CELLS.replace("[local, fedavg]", "{fedavg: {training: {lr: 0.5}}, local: }")
    (folder / "study.yaml").write_text(text)
    study = manifest.content(resolved(checked(read(folder / "study.yaml"))))["study"]
    assert study["protocol"]["lr"] == 0.05
    assert study["methods"]["fedavg"]["settings"] == {"training.lr": 0.5}
    assert study["methods"]["local"]["settings"] == {}


def test_a_new_method_passes_the_suite_as_it_is(capsys, folder, request):
    assert "is written" in said(capsys, "new-method", "fed_mine")
    suite = request.config.rootpath / "tests/methods"
    command = [sys.executable, "-m", "pytest", "-q", str(suite), "--method", str(folder / "fed_mine.py")]
    run = subprocess.run(command, cwd=request.config.rootpath, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:]
    assert " passed" in run.stdout or "100%" in run.stdout
