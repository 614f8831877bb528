"""``fedgrid doctor | about``: what is to be done before a run on this machine, and what a bug report needs of it."""

import argparse
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import fedgrid
from fedgrid.cli.parsing import command, option, path
from fedgrid.errors import UserError, reason
from fedgrid.files import cache, check_writable
from fedgrid.grid.plan.commit import commit
from fedgrid.jobs.gpus import MPS, cards, cells_on_a_gpu, nvidia_smi, seen_by_torch, side_by_side
from fedgrid.jobs.machine import instructions, processor
from fedgrid.run import slurm
from fedgrid.settings import Compute

PACKAGES = ("torch", "numpy", "pandas", "pyarrow", "snakemake", "snakemake-executor-plugin-slurm")
"Whose versions a bug report has."
STORE = Path("results/store")
PLUGIN = "snakemake-executor-plugin-slurm"
TESTED = {"snakemake": "9", PLUGIN: "2"}
"Major versions that are tested."
LEAST_DISK = 5e9
"Bytes below which free disk is reported."
LARGEST_LAG = 2.0
"Seconds by which a file system's clock may differ from the machine's."


@dataclass(frozen=True)
class Finding:
    """What was checked, the result in words, and what to do about it; empty: nothing."""

    name: str
    text: str
    advice: str = ""


@command(option("--results FOLDER", "where results will lie (default: results)", type=path, default=Path("results")))
def doctor(arguments: argparse.Namespace) -> int:
    """Whether this machine is ready for a run: Snakemake, SLURM, data, disk, GPUs, threads, cache, clock.

    fedgrid doctor
    fedgrid doctor --results /scratch/me/results
    """
    findings = list(_findings(arguments.results))
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark = "✗" if finding.advice else "✓"
        print(f"{mark} {finding.name:{width}}  {finding.text}{f': {finding.advice}' if finding.advice else ''}")
    return int(any(finding.advice for finding in findings))


def _findings(results: Path) -> Iterator[Finding]:
    results = _existing(results)
    yield _version("Snakemake", "snakemake", "pip install snakemake; fedgrid run works without it")
    yield from _slurm()
    yield _data_root()
    yield _writable("results", results)
    for name, check in (("disk", _disk), ("clock", _clock)):
        try:
            yield check(results)
        except OSError as error:
            yield Finding(name, f"cannot be checked in {results} ({reason(error)})", "choose another folder")
    yield _writable("cache", _existing(cache("doctor")))
    yield _gpus()
    yield _threads()


def _existing(folder: Path) -> Path:
    """The folder, or the nearest of those above it that exists: a look at the machine makes none."""
    return next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _version(name: str, package: str, advice: str) -> Finding:
    """Whether a package is installed, and in a tested version; `advice` is for one that is missing."""
    installed, tested = _installed(package), TESTED[package]
    if installed is None:
        return Finding(name, "not installed", advice)
    untested = f"fedgrid is tested with version {tested}; install that one"
    text = f"{package} {installed}" if package == PLUGIN else installed
    return Finding(name, text, "" if installed.partition(".")[0] == tested else untested)


def _slurm() -> Iterator[Finding]:
    """The executor and the accounting, where there is a SLURM."""
    if shutil.which("sbatch") is None:
        yield Finding("SLURM", "not here, so cells run on this machine")
        return
    yield Finding("SLURM", "here")
    yield _version("executor", PLUGIN, "pip install 'fedgrid[slurm]'")
    failure = slurm.accounting_failure() if shutil.which("sacct") else "not installed"
    squeue_asked = f"no accounting ({failure}), so runs ask squeue how jobs end"
    yield Finding("sacct", squeue_asked, slurm.forgets_early()) if failure else Finding("sacct", "answers")


def _data_root() -> Finding:
    folder = os.environ.get("FEDGRID_DATA")
    if not folder:
        by = "" if find_spec("torchvision") else "; most need torchvision for that: pip install 'fedgrid[download]'"
        return Finding("data root", f"FEDGRID_DATA is not set, so data sets are downloaded where a study allows it{by}")
    there = Path(folder).expanduser().is_dir()
    return Finding("data root", folder, "" if there else "no such folder; set FEDGRID_DATA to one")


def _writable(name: str, folder: Path) -> Finding:
    try:
        check_writable(folder, name)
    except UserError as error:
        return Finding(name, str(error), "choose another folder")
    return Finding(name, f"{folder} is writable")


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    advice = "fedgrid plan says what a study takes, fedgrid prune frees what no study needs"
    return Finding("disk", f"{free / 1e9:,.1f} GB free", "" if free >= LEAST_DISK else advice)


def _clock(folder: Path) -> Finding:
    """Snakemake compares times of files, which a file server's own clock may set."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        lag = os.stat(file.name).st_mtime - time.time()
    if abs(lag) <= LARGEST_LAG:
        return Finding("clock", "files are dated as this machine's clock says")
    text = f"files are dated {abs(lag):.0f} s {'ahead of' if lag > 0 else 'behind'} this machine's clock"
    return Finding("clock", text, "synchronise the clocks, or jobs may be run again for nothing")


def _gpus() -> Finding:
    names = cards()
    if not names:
        return Finding("GPUs", "none, so cells are computed on the CPU")
    advice = "" if seen_by_torch() else f"torch {_installed('torch')} cannot use them; install its CUDA build"
    share = cells_on_a_gpu(Compute())  # what `gpu_share: auto` does here
    beside = "side by side, by MPS" if side_by_side() else f"in turns; side by side once {MPS} -d runs"
    sharing = f"{share} cells on each, whose kernels run {beside}" if share > 1 else "a cell on each"
    return Finding("GPUs", f"{len(names)}, {sharing}", advice)


def _threads() -> Finding:
    cores, threads = os.cpu_count() or 1, os.environ.get("OMP_NUM_THREADS", "")
    text = f"{cores} cores" + (f", OMP_NUM_THREADS={threads}" if threads else "")
    crowded = threads.isdigit() and int(threads) > cores
    return Finding("threads", text, "more threads than cores slow every cell; unset it" if crowded else "")


@command(option("--store FOLDER", f"default: {STORE}", type=path, default=STORE))
def about(arguments: argparse.Namespace) -> None:
    """Versions, processor, GPUs and the size of the store, for a bug report.

    fedgrid about
    fedgrid about --store results/store
    """
    facts = list(_facts(arguments.store))
    width = max(len(name) for name, _ in facts)
    print("\n".join(f"{name:{width}}  {value}" for name, value in facts))


def _facts(store: Path) -> Iterator[tuple[str, str]]:
    revision = commit()
    edited = "" if revision is None or revision.clean else " with uncommitted changes"
    yield "fedgrid", f"{fedgrid.__version__}, {f'commit {revision.id[:12]}{edited}' if revision else 'not in a clone'}"
    yield "Python", f"{platform.python_version()} on {platform.platform()}"
    for name in PACKAGES:
        yield name, _installed(name) or "not installed"
    yield "processor", f"{processor()}, {os.cpu_count()} cores; {instructions() or 'instruction sets unknown'}"
    yield "memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    gpus = nvidia_smi("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader").splitlines()
    yield from (("GPU", gpu) for gpu in gpus or ["none that nvidia-smi reports"])
    yield "store", _store(store)


def _store(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} does not exist"
    files = [file for file in folder.rglob("*") if file.is_file()]
    cells = sum(file.suffix == ".parquet" and file.name.count(".") == 1 for file in files if "cells" in file.parts)
    return f"{folder}: {sum(file.stat().st_size for file in files) / 1e6:,.1f} MB, {cells:,} cells"
