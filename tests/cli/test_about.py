"""What a bug report needs to know of the installation."""

import subprocess

import pytest

import fedgrid
from fedgrid.cli.main import main


def facts(capsys, *arguments):
    assert main(["about", *arguments]) == 0
    return {line.split("  ")[0]: line.split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines()}


def test_versions_and_machine(folder, capsys):
    printed = facts(capsys)
    assert printed["fedgrid"].startswith(f"{fedgrid.__version__}, ")
    assert {"Python", "torch", "numpy", "snakemake", "processor", "memory", "GPU"} <= printed.keys()
    assert " cores; " in printed["processor"] and printed["memory"].endswith(" GiB")
    assert printed["store"] == "results/store does not exist"


def test_the_store_is_counted_without_artifacts(folder, capsys):
    cells = folder / "store/cells/local/digits/x"
    cells.mkdir(parents=True)
    for name in ("s0-abc.parquet", "s1-def.parquet", "s1-def.clusters.parquet"):
        (cells / name).write_bytes(b"x" * 500_000)
    assert facts(capsys, "--store", "store")["store"] == "store: 1.5 MB, 2 cells"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("NVIDIA H100, 81559 MiB, 550.1\n", "NVIDIA H100, 81559 MiB, 550.1"), (None, "none that nvidia-smi reports")],
)
def test_gpus_are_those_of_nvidia_smi(folder, capsys, monkeypatch, answer, expected):
    def run(command, **options):
        if command[0] != "nvidia-smi":
            return real(command, **options)
        if answer is None:
            raise FileNotFoundError(command[0])
        return subprocess.CompletedProcess(command, 0, stdout=answer)

    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", run)
    assert facts(capsys)["GPU"] == expected
