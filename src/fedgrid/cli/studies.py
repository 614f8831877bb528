"""Which study a command is about; ``fedgrid prune``: what no study needs any more."""

import argparse
import os
import re
import shutil
import time
from collections.abc import Collection
from pathlib import Path

from fedgrid.api.study_file import DEFAULT, read_study
from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.errors import Damaged, UserError
from fedgrid.grid.earlier.other_rounds import continuation
from fedgrid.grid.plan import manifest, plan_file
from fedgrid.grid.plan.manifest_model import read_manifest
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.model import FULL
from fedgrid.run import cell_states
from fedgrid.run.lock import StoreLock

STORED = (
    *(
        "cells/**/*.parquet",
        "cells/**/*.state.pt*",
        "cells/**/*.safetensors",
        "partitions/**/*.parquet",
        "partitions/**/*.json",
    ),
    *("choices/*.json", "data/*/*.parquet", "features/*/*.parquet", "checkpoints/*", "status/*.json", "**/.*.tmp"),
)
"Files of the store that some study may need."
OF_A_RUN = ("packs/*", "code/*")
"What only a run needs that is at work."


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid prune` to the command line."""
    text = "list, or delete, files of the store that neither studies here nor their latest runs need"
    prune = with_examples(commands, "prune", text, "fedgrid prune\nfedgrid prune --configfile config/*.yaml --delete")
    prune.add_argument("--configfile", type=path, nargs="*", default=[], help="more studies whose files are kept")
    prune.add_argument("--results", type=path, default=Path("results"), help="default: results")
    prune.add_argument("--delete", action="store_true", help="delete them")
    prune.set_defaults(call=_prune)


def add_configfile(parser: argparse.ArgumentParser) -> None:
    """The option that names a study."""
    parser.add_argument("--configfile", type=path, default=DEFAULT, help=f"the study (default: {DEFAULT})")
    add_choice(parser)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """The options that choose of a study with experiments, as Snakemake's ``--config`` does."""
    parser.add_argument("--scale", help="full, or one of the study's scales")
    parser.add_argument("--only", metavar="EXPERIMENTS", help="only these experiments, separated by commas")


def as_in_study(file: Path) -> tuple[str, str]:
    """A file as a study names it, and which study: the default one, or one in the working folder."""
    if DEFAULT.is_file():
        return os.path.relpath(file, DEFAULT.parent), str(DEFAULT)
    return str(file), "a study in this folder"


def study_of(arguments: argparse.Namespace) -> Study:
    """The study that a command's options name."""
    return read_study(arguments.configfile, arguments.scale, arguments.only)


def _prune(arguments: argparse.Namespace) -> int:
    store = arguments.results / "store"
    if not store.is_dir():
        raise UserError(f"--results: there is no store in {arguments.results}")
    lock = StoreLock(store)
    at_work = lock.holder()
    if arguments.delete and not at_work:
        lock.acquire()  # no run begins meanwhile
    latest = {file: _read_plan(file) for file in latest_plans(store)}
    studies = _studies_of_files(arguments, latest.values())
    of_files = [study for of_file in studies.values() for study in of_file]
    needed = _needed(arguments.results, [*of_files, *(plan.study for plan in latest.values())])
    patterns = STORED if at_work or cell_states.are_trained_directly(store) else STORED + OF_A_RUN
    files = sorted({file for pattern in patterns for file in store.glob(pattern)})
    stale = [file for file in files if not _keys(file) & needed and not _being_written(file)]
    plans = sorted(store.glob("plans/*.json"))
    stale += [file for file in plans if file not in latest]
    size = sum(part.stat().st_size for file in stale for part in (file, *file.rglob("*")) if part.is_file())
    for file in stale:
        if arguments.delete and file.is_dir():
            shutil.rmtree(file)
        elif arguments.delete:
            file.unlink()
        print(f"{'deleted' if arguments.delete else 'not needed'}  {file}")
    lock.release()
    hint = "" if arguments.delete or not stale else "; delete them with fedgrid prune --delete"
    print(f"{len(stale)} of {len(files) + len(plans)} files, {size / 1e6:.1f} MB{hint}")
    named = "".join(f", {file}" for file in studies)
    print(f"all else is needed by tables and latest runs in {arguments.results}{named}")
    return 0


def _read_plan(file: Path) -> Plan:
    """A plan; UserError where it cannot be read, for then nobody knows what its study needs."""
    try:
        return plan_file.read(file)
    except Damaged as error:
        hint = "run that study again, or delete this file and name the study's with --configfile"
        raise UserError(f"{file}: {error.why}, so what its study needs is unknown; {hint}") from error


def _studies_of_files(arguments: argparse.Namespace, plans: Collection[Plan]) -> dict[Path, list[Study]]:
    """Studies as their files say now: those of the `plans`, at the scales of these, the default one, and those named.

    Files are looked up beside the folder of results and in the working folder.
    """
    folders = dict.fromkeys((arguments.results.parent, Path()))
    scales = dict.fromkeys([(DEFAULT, FULL), *((Path(plan.configfile), plan.study.scale) for plan in plans)])
    files = [(folder / file, scale) for file, scale in scales for folder in folders if (folder / file).is_file()]
    studies: dict[Path, list[Study]] = {}
    for file, scale in dict.fromkeys([*files, *((file, FULL) for file in arguments.configfile)]):
        studies.setdefault(file, []).append(read_study(file, scale))
    return studies


def _needed(results: Path, studies: list[Study]) -> set[str]:
    """Keys that `studies` and the tables in the folder of results need.

    Also those of shorter runs from whose states cells of theirs will continue.
    """
    depths = ("*", "*/*")  # of plain studies, and of experiments
    manifests = [read_manifest(file) for depth in depths for file in results.glob(f"{depth}/{manifest.NAME}")]
    drawn = {key for manifest in manifests for cell in manifest.cells for key in cell.needs}
    cells = [cell for study in studies for cell in study.by_key.values()]
    wanted = {run.metadata["key"] for cell in cells if cell.waiting and (run := continuation(cell)[0])}
    choices = {key for study in studies for key in study.choices}
    return drawn | wanted | choices | {key for cell in cells for key in cell.keys}


def latest_plans(store: Path) -> list[Path]:
    """The plan of every study's latest run."""
    oldest_first = sorted(store.glob("plans/*.json"), key=lambda file: file.stat().st_mtime_ns)
    return list({file.stem.rpartition("-")[0]: file for file in oldest_first}.values())


def _keys(file: Path) -> set[str]:
    """Keys in the names of a file and its folder."""
    return set(re.findall(r"[0-9a-f]{16}", f"{file.parent.name}/{file.name}"))


def _being_written(file: Path) -> bool:
    """Whether a temporary file may still become a result: killed jobs leave theirs behind."""
    return file.suffix == ".tmp" and time.time() - file.stat().st_mtime < 3600
