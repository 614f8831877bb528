"""``fedgrid doctor``: each thing that is wrong has a line with what to do; and ``fedgrid about``."""

import os
import re
import subprocess
import types

import pytest

import fedgrid
from fedgrid.cli import doctor
from fedgrid.cli.main import main


@pytest.fixture
def healthy(folder, monkeypatch):
    """A machine on which nothing is to be done, without SLURM and without GPUs."""
    monkeypatch.setattr(doctor, "cards", list)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1e12))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return folder


def examine(capsys, *arguments):
    """The exit code, and by name each line's mark and text."""
    code = main(["doctor", *arguments])
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    return code, {name: (mark, text) for mark, line in lines for name, text in [re.split("  +", line, maxsplit=1)]}


def advice(capsys, name, *arguments):
    """What the one line says for which something is to be done."""
    code, lines = examine(capsys, *arguments)
    assert code == 1 and [key for key, (mark, _) in lines.items() if mark == "✗"] == [name]
    return lines[name][1]


def test_a_machine_that_is_ready(healthy, capsys):
    code, lines = examine(capsys)
    assert code == 0 and {mark for mark, _ in lines.values()} == {"✓"}
    assert list(lines) == ["Snakemake", "SLURM", "data root", "results", "disk", "clock", "cache", "GPUs", "threads"]
    assert not list(healthy.glob("results*"))  # a look makes nothing


@pytest.mark.parametrize(("installed", "text"), [(None, "not installed: pip"), ("8.30.0", "8.30.0: fedgrid")])
def test_snakemake(healthy, capsys, monkeypatch, installed, text):
    monkeypatch.setattr(doctor, "_installed", lambda package: installed)
    assert advice(capsys, "Snakemake").startswith(text)


@pytest.fixture
def cluster(healthy, monkeypatch):
    """A machine with SLURM, its executor and its accounting."""
    monkeypatch.setattr(doctor.shutil, "which", lambda name: name)
    monkeypatch.setattr(doctor, "_installed", {"snakemake": "9.1.0", doctor.PLUGIN: "2.8.0"}.get)
    monkeypatch.setattr(doctor.slurm, "accounting_failure", lambda: "")
    monkeypatch.setattr(doctor.slurm, "forgets_early", lambda: "")
    return healthy


def test_a_cluster_that_is_ready(cluster, capsys):
    code, lines = examine(capsys)
    assert code == 0 and list(lines)[:4] == ["Snakemake", "SLURM", "executor", "sacct"]
    assert lines["executor"] == ("✓", f"{doctor.PLUGIN} 2.8.0") and lines["sacct"] == ("✓", "answers")


def test_slurm_without_accounting(cluster, capsys, monkeypatch):
    monkeypatch.setattr(doctor.slurm, "accounting_failure", lambda: "it is disabled")
    code, lines = examine(capsys)
    assert code == 0 and lines["sacct"][1] == "no accounting (it is disabled), so runs ask squeue how jobs end"
    monkeypatch.setattr(doctor.slurm, "forgets_early", lambda: "squeue forgets early")
    assert advice(capsys, "sacct").endswith("so runs ask squeue how jobs end: squeue forgets early")


def test_slurm_without_sacct(cluster, capsys, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None if name == "sacct" else name)
    code, lines = examine(capsys)
    assert code == 0 and lines["sacct"][1].startswith("no accounting (not installed), so runs ask squeue")


@pytest.mark.parametrize(
    ("installed", "text"),
    [
        (None, "not installed: pip install 'fedgrid[slurm]'"),
        ("3.0.0", f"{doctor.PLUGIN} 3.0.0: fedgrid is tested with"),
    ],
)
def test_slurm_without_a_tested_executor(cluster, capsys, monkeypatch, installed, text):
    monkeypatch.setattr(doctor, "_installed", {"snakemake": "9.1.0", doctor.PLUGIN: installed}.get)
    assert advice(capsys, "executor").startswith(text)


def test_data_root_disk_and_threads(healthy, capsys, monkeypatch):
    monkeypatch.setenv("FEDGRID_DATA", str(healthy / "nowhere"))
    assert "no such folder" in advice(capsys, "data root")
    monkeypatch.delenv("FEDGRID_DATA")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1e9))
    assert "1.0 GB free: fedgrid plan says" in advice(capsys, "disk")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1e12))
    monkeypatch.setenv("OMP_NUM_THREADS", str(10 * (os.cpu_count() or 1)))
    assert "more threads than cores" in advice(capsys, "threads")


@pytest.mark.parametrize(("seconds", "words"), [(60, "behind"), (-60, "ahead of")])
def test_a_file_server_with_a_clock_of_its_own(healthy, capsys, monkeypatch, seconds, words):
    now = doctor.time.time
    monkeypatch.setattr(doctor, "time", types.SimpleNamespace(time=lambda: now() + seconds))
    assert f"60 s {words} this machine's clock" in advice(capsys, "clock")


def test_a_folder_that_cannot_be_written(healthy, capsys, monkeypatch):
    def refuse(folder, what):
        if what == "results":
            raise doctor.UserError(f"{what}: cannot write in {folder}")

    monkeypatch.setattr(doctor, "check_writable", refuse)
    assert "cannot write in" in advice(capsys, "results", "--results", "deep/down")


def test_gpus_that_torch_cannot_use(healthy, capsys, monkeypatch):
    monkeypatch.setattr(doctor, "cards", lambda: ["GPU-1"])
    monkeypatch.setattr(doctor, "seen_by_torch", lambda: 0)
    assert "install its CUDA build" in advice(capsys, "GPUs")


@pytest.mark.parametrize(
    ("cells", "mps", "text"),
    [
        (1, True, "2, a cell on each"),
        (4, True, "2, 4 cells on each, whose kernels run side by side, by MPS"),
        (4, False, "2, 4 cells on each, whose kernels run in turns; side by side once nvidia-cuda-mps-control -d runs"),
    ],
)
def test_cells_that_share_gpus(healthy, capsys, monkeypatch, cells, mps, text):
    monkeypatch.setattr(doctor, "cards", lambda: ["GPU-1", "GPU-2"])
    monkeypatch.setattr(doctor, "seen_by_torch", lambda: 2)
    monkeypatch.setattr(doctor, "cells_on_a_gpu", lambda compute: cells)
    monkeypatch.setattr(doctor, "side_by_side", lambda: mps)
    code, lines = examine(capsys)
    assert code == 0 and lines["GPUs"] == ("✓", text)


# -- about


@pytest.fixture
def facts(folder, output):
    """What `fedgrid about` says, by name."""

    def call(*arguments):
        lines = [line.split("  ") for line in output("about", *arguments).splitlines()]
        return {name: value.strip() for name, *_, value in lines}

    return call


def test_versions_and_machine(facts):
    printed = facts()
    assert printed["fedgrid"].startswith(f"{fedgrid.__version__}, ")
    assert {"Python", "torch", "numpy", "snakemake", "processor", "memory", "GPU"} <= printed.keys()
    assert " cores; " in printed["processor"] and printed["memory"].endswith(" GiB")
    assert printed["store"] == "results/store does not exist"


def test_the_store_is_counted_without_artifacts(folder, facts):
    cells = folder / "store/cells/local/digits/x"
    cells.mkdir(parents=True)
    for name in ("s0-abc.parquet", "s1-def.parquet", "s1-def.clusters.parquet"):
        (cells / name).write_bytes(b"x" * 500_000)
    assert facts("--store", "store")["store"] == "store: 1.5 MB, 2 cells"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("NVIDIA H100, 81559 MiB, 550.1\n", "NVIDIA H100, 81559 MiB, 550.1"), (None, "none that nvidia-smi reports")],
)
def test_gpus_are_those_of_nvidia_smi(facts, monkeypatch, answer, expected):
    def run(command, **options):
        if command[0] != "nvidia-smi":
            return real(command, **options)
        if answer is None:
            raise FileNotFoundError(command[0])
        return subprocess.CompletedProcess(command, 0, stdout=answer)

    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", run)
    assert facts()["GPU"] == expected
