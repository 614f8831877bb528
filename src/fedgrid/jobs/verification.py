"""Whether results fit the code beside them: finished cells are trained again in another store and compared."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

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
from fedgrid.settings import Compute

UNSHARED_FOLDERS = ("cells", "checkpoints", "choices", "code", "logs", "packs", "plans", "status")
"Folders that a second store does not share with the first, as it does data and partitions."


def comparable(studies: Iterable[Study]) -> tuple[list[Cell], Counter[str]]:
    """The finished cells that can be checked on this machine, and the numbers of others by the reason why they cannot.

    The cells are in the order of their keys, so that the same sample can be drawn again.
    """
    cells: list[Cell] = []
    elsewhere: Counter[str] = Counter()
    finished = {cell.key: cell for study in studies for cell in study.by_key.values() if cell.done}
    for _, cell in sorted(finished.items()):
        if metadata := known_metadata(cell.file):
            lacking = obstacles(Circumstances.of(metadata))
            cells += [] if lacking else [cell]
            elsewhere.update([", ".join(lacking)] if lacking else [])
    return cells, elsewhere


def sample(cells: Sequence[Cell], number: int, seed: int) -> list[Cell]:
    """A random sample of `number` cells; all of them if there are fewer."""
    return random.Random(seed).sample(cells, min(number, len(cells)))


def verify(
    cells: Sequence[Cell], rerun_studies: Iterable[Study], cores: int, tell: Callable[[str], None]
) -> Iterator[tuple[Cell, str]]:
    """Trains finished cells again, and yields each with the first difference; empty if all recorded bits are the same.

    `rerun_studies` are the same studies with another folder of results.
    """
    study_of = {cell.key: study for study in rerun_studies for cell in study.known.values()}
    planned = {key: study.known[key] for key, study in study_of.items()}
    for store in {cell.store: planned[cell.key].store for cell in cells}.items():
        link_inputs(*store)
    for cell in cells:
        prepare(planned[cell.key].partition, study_of[cell.key])
    circumstances_of = {cell.key: Circumstances.of(cell_metadata(cell.file)) for cell in cells}
    for circumstances in {*circumstances_of.values()}:
        alike = [planned[key] for key, computed_under in circumstances_of.items() if computed_under == circumstances]
        train_again(alike, circumstances, study_of, cores, tell)
    for cell in cells:
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


def link_inputs(store: Path, second: Path) -> None:
    """Links the data and partitions of a store into a second one; UserError if that is not empty."""
    second.mkdir(parents=True, exist_ok=True)
    if any(second.iterdir()):
        raise UserError(f"{second}: has to be empty")
    for folder in store.iterdir():
        if folder.is_dir() and folder.name not in UNSHARED_FOLDERS:
            (second / folder.name).symlink_to(folder.resolve())


def obstacles(circumstances: Circumstances) -> list[str]:
    """Reasons why results under these circumstances cannot be checked on this machine; empty if they can."""
    current = replace(
        circumstances,
        processor=processor(),
        instructions=instructions(),
        device=_device(circumstances.device),
        torch=version("torch"),
        numpy=version("numpy"),
    )
    return circumstances.differences(current)


def _device(name: str) -> str:
    """The device of this machine to compare with results of the device `name`."""
    if name == "cpu":
        return name
    from fedgrid.engine.local.devices import chosen, name_of  # torch takes seconds to import

    return name_of(chosen("auto"))


def train_again(
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
    for study in {id(study_of[cell.key]): study_of[cell.key] for cell in waiting}.values():
        copied = replace(study, name=f"{study.name}-again", compute=_computed_as(circumstances, study.compute))
        plan = Plan(copied, from_nothing=True).write()
        Pack(plan, [cell for cell in waiting if study_of[cell.key] is study], cores).run()
        plan.unlink(missing_ok=True)


def _computed_as(circumstances: Circumstances, settings: Compute) -> Compute:
    """The `settings`, with those under which results were computed."""
    device = "cpu" if circumstances.device == "cpu" else "cuda"
    return replace(settings, device=device, threads=circumstances.threads, executor=circumstances.executor)
