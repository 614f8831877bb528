"""Whether results fit the code beside them: finished cells are trained again in another store and compared."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.api.study_file import read_study
from fedgrid.engine.local import devices
from fedgrid.errors import UserError
from fedgrid.grid.earlier.circumstances import Circumstances
from fedgrid.grid.plan.cell_metadata import cell_metadata, known_metadata
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs.comparison import difference
from fedgrid.jobs.machine import instructions, processor
from fedgrid.jobs.pack import Pack
from fedgrid.jobs.partition import prepare

UNSHARED_FOLDERS = ("cells", "checkpoints", "choices", "code", "logs", "packs", "plans", "status")
"Folders that a second store does not share with the first, as it does data and partitions."


@dataclass(frozen=True)
class Sample:
    """Finished cells of the studies in some files, drawn at random to be trained again."""

    files: Sequence[Path]
    scale: str | None
    only: str | None
    stores: list[Path]
    "Of the study in each file."
    cells: list[Cell]
    seed: int
    "Of the draw."
    comparable: int
    "Number of finished cells from which they were drawn: those that this machine can compare."
    elsewhere: Counter[str]
    "Numbers of other finished cells by what this machine lacks to compare them."


def draw(files: Sequence[Path], scale: str | None, only: str | None, number: int, seed: int | None) -> Sample:
    """Draws `number` finished cells, or all if they are fewer; UserError where there is none to compare.

    The same `seed` draws the same cells again; None stands for a new one.
    """
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    studies = [read_study(file, scale, only) for file in files]
    cells, elsewhere = comparable(studies)
    if not cells and elsewhere:
        lacking, most = elsewhere.most_common(1)[0]
        raise UserError(f"no finished cell can be compared on this machine; {most:,} were computed with {lacking}")
    if not cells:
        raise UserError("no cell of these studies is finished")
    stores = [study.store for study in studies]
    return Sample(files, scale, only, stores, sample(cells, number, seed), seed, len(cells), elsewhere)


def comparable(studies: Iterable[Study]) -> tuple[list[Cell], Counter[str]]:
    """The finished cells that can be checked on this machine, and the numbers of others by the reason why they cannot.

    The cells are in the order of their keys, so that the same sample can be drawn again.
    """
    cells: list[Cell] = []
    elsewhere: Counter[str] = Counter()
    finished = {cell.key: cell for study in studies for cell in study.by_key.values() if cell.done}
    for _, cell in sorted(finished.items()):
        if metadata := known_metadata(cell.file):
            if lacking := obstacles(Circumstances.of(metadata)):
                elsewhere[", ".join(lacking)] += 1
            else:
                cells.append(cell)
    return cells, elsewhere


def sample(cells: Sequence[Cell], number: int, seed: int) -> list[Cell]:
    """A random sample of `number` cells; all of them if there are fewer."""
    return random.Random(seed).sample(cells, min(number, len(cells)))


def verify(drawn: Sample, cores: int, tell: Callable[[str], None]) -> Iterator[tuple[Cell, str]]:
    """Trains the cells again, `cores` at a time, in stores of their own, which share data and partitions with theirs.

    Yields each with the first difference; empty if all recorded bits are the same. `tell` hears what is trained.
    """
    with TemporaryDirectory() as folder:
        folders: dict[Path, Path] = {}
        study_of: dict[str, Study] = {}
        for file, store in zip(drawn.files, drawn.stores, strict=True):
            results = folders.setdefault(store, Path(folder, str(len(folders))))
            study = read_study(file, drawn.scale, drawn.only, results)
            study_of |= dict.fromkeys(study.known, study)
        planned = {cell.key: study_of[cell.key].known[cell.key] for cell in drawn.cells}
        for stores in {(cell.store, planned[cell.key].store) for cell in drawn.cells}:
            _link_inputs(*stores)
        for key, rerun in planned.items():
            prepare(rerun.partition, study_of[key])
        circumstances_of = {cell.key: Circumstances.of(cell_metadata(cell.file)) for cell in drawn.cells}
        for circumstances in {*circumstances_of.values()}:
            alike = [rerun for key, rerun in planned.items() if circumstances_of[key] == circumstances]
            _train_again(alike, circumstances, study_of, cores, tell)
        for cell in drawn.cells:
            rerun = planned[cell.key]
            yield cell, _difference(cell, rerun) if rerun.done else f"could not be trained: {_last_line(rerun.log)}"


def _difference(cell: Cell, rerun: Cell) -> str:
    """The first difference between the results of a cell and those of its second training; empty: there is none."""
    before, now = rerun.kept_beside(cell.file), rerun.kept_beside(rerun.file)
    return difference(cell.file, rerun.file, {kind: (before[kind], now[kind]) for kind in now})


def _last_line(log: Path) -> str:
    """The last line of a failed cell's log."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.is_file() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "never started")


def _link_inputs(store: Path, second: Path) -> None:
    """Links the data and partitions of a store into a second one."""
    second.mkdir(parents=True)
    for folder in store.iterdir():
        if folder.is_dir() and folder.name not in UNSHARED_FOLDERS:
            (second / folder.name).symlink_to(folder.resolve())


def obstacles(circumstances: Circumstances) -> list[str]:
    """Reasons why results under these circumstances cannot be checked on this machine; empty if they can."""
    device = "cpu" if circumstances.device == "cpu" else devices.name_of(devices.chosen("auto"))
    current = replace(circumstances, processor=processor(), instructions=instructions(), device=device)
    return circumstances.differences(replace(current, torch=version("torch"), numpy=version("numpy")))


def _train_again(
    cells: Sequence[Cell],
    circumstances: Circumstances,
    study_of: Mapping[str, Study],
    cores: int,
    tell: Callable[[str], None],
) -> None:
    """Trains those of the `cells` that have no results, each in its own process, `cores` at a time.

    They are trained under the `circumstances` and from their first round; data and partitions have to be there.
    `study_of` names the study of every key; `tell` hears what is trained.
    """
    waiting = [cell for cell in cells if not cell.done]
    for cell in waiting:
        tell(f"training {cell.description} ({cell.key})")
    device = "cpu" if circumstances.device == "cpu" else "cuda"
    for study in {id(study_of[cell.key]): study_of[cell.key] for cell in waiting}.values():
        threads, executor = circumstances.threads, circumstances.executor
        compute = replace(study.compute, device=device, threads=threads, executor=executor)
        plan = Plan(replace(study, name=f"{study.name}-again", compute=compute), from_nothing=True).write()
        Pack(plan, [cell for cell in waiting if study_of[cell.key] is study], cores).run()
        plan.unlink(missing_ok=True)
