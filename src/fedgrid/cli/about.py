"""``fedgrid about``: what a bug report needs to know of the installation and the machine."""

import argparse
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fedgrid
from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.grid.plan.commit import commit
from fedgrid.jobs.gpus import nvidia_smi
from fedgrid.jobs.machine import instructions, processor

PACKAGES = ("torch", "numpy", "pandas", "pyarrow", "snakemake", "snakemake-executor-plugin-slurm")
STORE = Path("results/store")
Fact = tuple[str, str]


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid about` to the command line."""
    text = "versions, processor, GPUs and the size of the store, for a bug report"
    parser = with_examples(commands, "about", text, "fedgrid about\nfedgrid about --store results/store")
    parser.add_argument("--store", type=path, default=STORE, metavar="FOLDER", help=f"default: {STORE}")
    parser.set_defaults(call=_about)


def _about(arguments: argparse.Namespace) -> int:
    facts = [*_versions(), *_machine(), ("store", _store(arguments.store))]
    width = max(len(name) for name, _ in facts)
    print("\n".join(f"{name:{width}}  {value}" for name, value in facts))
    return 0


def _versions() -> Iterator[Fact]:
    yield "fedgrid", f"{fedgrid.__version__}, {_commit()}"
    yield "Python", f"{platform.python_version()} on {platform.platform()}"
    for name in PACKAGES:
        yield name, _version(name)


def _commit() -> str:
    revision = commit()
    if revision is None:
        return "not in a clone"
    return f"commit {revision['id'][:12]}{'' if revision['clean'] else ' with uncommitted changes'}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _machine() -> Iterator[Fact]:
    yield "processor", f"{processor()}, {os.cpu_count()} cores; {instructions() or 'instruction sets unknown'}"
    yield "memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    yield from _gpus()


def _gpus() -> Iterator[Fact]:
    lines = nvidia_smi("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader").splitlines()
    for line in lines or ["none that nvidia-smi reports"]:
        yield "GPU", line


def _store(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} does not exist"
    files = [file for file in folder.rglob("*") if file.is_file()]
    cells = sum(file.suffix == ".parquet" and file.name.count(".") == 1 for file in files if "cells" in file.parts)
    return f"{folder}: {sum(file.stat().st_size for file in files) / 1e6:,.1f} MB, {cells:,} cells"
