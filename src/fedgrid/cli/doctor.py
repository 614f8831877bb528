"""``fedgrid doctor``: whether this machine is ready for a run, a line for each thing that runs have failed for."""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.errors import UserError, reason
from fedgrid.files import cache, check_writable
from fedgrid.jobs.gpus import cards, cells_on_a_gpu, seen_by_torch, side_by_side
from fedgrid.run import slurm
from fedgrid.settings import Compute

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


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid doctor` to the command line."""
    text = "whether this machine is ready for a run: Snakemake, SLURM, data, disk, GPUs, threads, cache, clock"
    doctor = with_examples(commands, "doctor", text, "fedgrid doctor\nfedgrid doctor --results /scratch/me/results")
    text = "where results will lie (default: results)"
    doctor.add_argument("--results", type=path, default=Path("results"), metavar="FOLDER", help=text)
    doctor.set_defaults(call=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    """Exit code 1 where anything is to be done before a run."""
    findings = list(_findings(arguments.results))
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark = "✗" if finding.advice else "✓"
        print(f"{mark} {finding.name:{width}}  {finding.text}{f': {finding.advice}' if finding.advice else ''}")
    return int(any(finding.advice for finding in findings))


def _findings(results: Path) -> Iterator[Finding]:
    results = _existing(results)
    yield _snakemake()
    yield from _slurm()
    yield _data_root()
    yield _writable("results", results)
    yield _disk(results)
    yield _clock(results)
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


def _snakemake() -> Finding:
    installed = _installed("snakemake")
    if installed is None:
        return Finding("Snakemake", "not installed", "pip install snakemake; fedgrid run works without it")
    return Finding("Snakemake", installed, _untested("snakemake", installed))


def _untested(package: str, installed: str) -> str:
    """What to do about a version that is not tested; empty for one that is."""
    tested = TESTED[package]
    return "" if installed.partition(".")[0] == tested else f"fedgrid is tested with version {tested}; install that one"


def _slurm() -> Iterator[Finding]:
    """The executor and the accounting, where there is a SLURM."""
    if shutil.which("sbatch") is None:
        yield Finding("SLURM", "not here, so cells run on this machine")
        return
    yield Finding("SLURM", "here")
    plugin = _installed(PLUGIN)
    if plugin is None:
        yield Finding("executor", "not installed", f"pip install {PLUGIN}")
    else:
        yield Finding("executor", f"{PLUGIN} {plugin}", _untested(PLUGIN, plugin))
    yield _accounting()


def _accounting() -> Finding:
    """Who tells a run how its jobs end."""
    if shutil.which("sacct") is None:
        failure = "not installed"
    elif not (failure := slurm.accounting_failure()):
        return Finding("sacct", "answers")
    return Finding("sacct", f"no accounting ({failure}), so runs ask squeue how jobs end", slurm.forgets_early())


def _data_root() -> Finding:
    folder = os.environ.get("FEDGRID_DATA")
    if not folder:
        return Finding("data root", "FEDGRID_DATA is not set, so data sets are downloaded where a study allows it")
    there = Path(folder).expanduser().is_dir()
    return Finding("data root", folder, "" if there else "no such folder; set FEDGRID_DATA to one")


def _writable(name: str, folder: Path) -> Finding:
    try:
        check_writable(folder, name)
    except UserError as error:
        return Finding(name, str(error), "choose another folder")
    return Finding(name, f"{folder} is writable")


def _disk(folder: Path) -> Finding:
    return _where_possible("disk", folder, _free)


def _free(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    advice = "fedgrid plan says what a study takes, fedgrid prune frees what no study needs"
    return Finding("disk", f"{free / 1e9:,.1f} GB free", "" if free >= LEAST_DISK else advice)


def _clock(folder: Path) -> Finding:
    return _where_possible("clock", folder, _lag)


def _lag(folder: Path) -> Finding:
    """Snakemake compares times of files, which a file server's own clock may set."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        lag = os.stat(file.name).st_mtime - time.time()
    text = f"files are dated {abs(lag):.0f} s {'ahead of' if lag > 0 else 'behind'} this machine's clock"
    if abs(lag) > LARGEST_LAG:
        return Finding("clock", text, "synchronise the clocks, or jobs may be run again for nothing")
    return Finding("clock", "files are dated as this machine's clock says")


def _where_possible(name: str, folder: Path, check: Callable[[Path], Finding]) -> Finding:
    try:
        return check(folder)
    except OSError as error:
        return Finding(name, f"cannot be checked in {folder} ({reason(error)})", "choose another folder")


def _gpus() -> Finding:
    names = cards()
    if not names:
        return Finding("GPUs", "none, so cells are computed on the CPU")
    advice = "" if seen_by_torch() else f"torch {_installed('torch')} cannot use them; install its CUDA build"
    return Finding("GPUs", f"{len(names)}, {_sharing()}", advice)


def _sharing() -> str:
    """What `gpu_share: auto` does here."""
    share = cells_on_a_gpu(Compute())
    if share == 1:
        return "a cell on each"
    beside = "side by side, by MPS" if side_by_side() else "in turns; side by side once nvidia-cuda-mps-control -d runs"
    return f"{share} cells on each, whose kernels run {beside}"


def _threads() -> Finding:
    cores, threads = os.cpu_count() or 1, os.environ.get("OMP_NUM_THREADS", "")
    text = f"{cores} cores" + (f", OMP_NUM_THREADS={threads}" if threads else "")
    crowded = threads.isdigit() and int(threads) > cores
    return Finding("threads", text, "more threads than cores slow every cell; unset it" if crowded else "")
