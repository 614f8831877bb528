"""Files of the store that neither studies here nor their latest runs need any more."""

import re
import shutil
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from fedgrid.api.study_file import latest_plans, read_study
from fedgrid.command import DEFAULT
from fedgrid.errors import Damaged, UserError
from fedgrid.grid.earlier.other_rounds import continuation
from fedgrid.grid.plan import manifest, plan_file
from fedgrid.grid.plan.cell_origin import SUFFIX
from fedgrid.grid.plan.manifest_model import read_manifest
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.model import FULL
from fedgrid.run import cell_states
from fedgrid.run.lock import StoreLock

STORED = (
    *("cells/**/*.parquet", "cells/**/*.state.pt*", "cells/**/*.safetensors", "partitions/**/*.parquet"),
    *("partitions/**/*.json", "choices/*.json", "data/*/*.parquet", "features/*/*.parquet", "checkpoints/*"),
    *(f"cells/**/*{SUFFIX}", "status/*.json", "**/.*.tmp"),
)
"Files of the store that some study may need."
OF_A_RUN = ("packs/*", "code/*")
"What only a run needs that is at work."


@dataclass(frozen=True)
class Pruned:
    """What no study needs of a store."""

    files: list[Path]
    "Some are folders."
    size: int
    "Of these, in bytes."
    of: int
    "Files of the store that were looked at."
    studies: list[Path]
    "Files of studies whose needs were heeded."


def prune(results: Path, configfiles: Iterable[Path], delete: bool) -> Pruned:
    """Lists, or deletes, what is not needed by the default study, those in `configfiles`, latest runs, and tables.

    Raises UserError where there is no store, a run is at work and files are to be deleted, or a plan is damaged.
    """
    store = results / "store"
    if not store.is_dir():
        raise UserError(f"--results: there is no store in {results}")
    lock = StoreLock(store)
    at_work = lock.holder()
    if delete and not at_work:
        lock.acquire()  # no run begins meanwhile
    latest = {file: _read_plan(file) for file in latest_plans(store)}
    studies = _studies(results, configfiles, latest.values())
    planned = [study for at_scales in studies.values() for study in at_scales]
    needed = _needed(results, [*planned, *(plan.study for plan in latest.values())])
    patterns = STORED if at_work or cell_states.are_trained_directly(store) else STORED + OF_A_RUN
    files = sorted({file for pattern in patterns for file in store.glob(pattern)})
    plans = sorted(store.glob("plans/*.json"))
    stale = [file for file in files if not _keys(file) & needed and not _being_written(file)]
    stale += [file for file in plans if file not in latest]
    size = sum(part.stat().st_size for file in stale for part in (file, *file.rglob("*")) if part.is_file())
    for file in stale if delete else ():
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    lock.release()
    return Pruned(stale, size, len(files) + len(plans), [*studies])


def _read_plan(file: Path) -> Plan:
    """A plan; UserError where it cannot be read, for then nobody knows what its study needs."""
    try:
        return plan_file.read(file)
    except Damaged as error:
        hint = "run that study again, or delete this file and name the study's with --configfile"
        raise UserError(f"{file}: {error.why}, so what its study needs is unknown; {hint}") from error


def _studies(results: Path, configfiles: Iterable[Path], plans: Collection[Plan]) -> dict[Path, list[Study]]:
    """Studies as their files say now: those of the `plans`, at the scales of these, the default one, and those named.

    Files are looked up beside the folder of results and in the working folder.
    """
    folders = dict.fromkeys((results.parent, Path()))
    scales = dict.fromkeys([(DEFAULT, FULL), *((Path(plan.configfile), plan.study.scale) for plan in plans)])
    files = [(folder / file, scale) for file, scale in scales for folder in folders if (folder / file).is_file()]
    studies: dict[Path, list[Study]] = {}
    for file, scale in dict.fromkeys([*files, *((file, FULL) for file in configfiles)]):
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
    wanted = {run.metadata.key for cell in cells if cell.waiting and (run := continuation(cell)[0])}
    choices = {key for study in studies for key in study.choices}
    return drawn | wanted | choices | {key for cell in cells for key in cell.keys}


def _keys(file: Path) -> set[str]:
    """Keys in the names of a file and its folder."""
    return set(re.findall(r"[0-9a-f]{16}", f"{file.parent.name}/{file.name}"))


def _being_written(file: Path) -> bool:
    """Whether a temporary file may still become a result: killed jobs leave theirs behind."""
    return file.suffix == ".tmp" and time.time() - file.stat().st_mtime < 3600
