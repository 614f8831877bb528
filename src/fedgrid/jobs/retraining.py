"""Cells that are trained again as they were trained before, so that the bits of both results can be compared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

from fedgrid.grid.earlier.circumstances import Circumstances
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs.machine import instructions, processor
from fedgrid.jobs.pack import Pack
from fedgrid.settings import Compute


def obstacles(circumstances: Circumstances) -> list[str]:
    """Why results under these circumstances cannot be checked on this machine, in words; empty where they can."""
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
    """The device of this machine that results of the device `name` can be compared on."""
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
