"""Results under earlier code of cells that are planned: the same settings, and another key."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedgrid.components import identity
from fedgrid.grid.costs.measured import facts
from fedgrid.grid.plan.keys import modules_of_cell
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.model import Configured, Settings
from fedgrid.settings import identity_of_backbone, identity_of_training

NOT_RECORDED = "not recorded"
"Instruction set of results that were written before it was recorded."


@dataclass(frozen=True, order=True)
class Circumstances:
    """What the bits of a result may depend on besides code and settings."""

    processor: str
    instructions: str
    "SIMD instruction set of the processor."
    threads: int
    executor: str
    device: str
    torch: str
    numpy: str
    before: str = ""
    "What earlier attempts ran on, in words, where that was something else; see `fedgrid.jobs.attempts`."

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "Circumstances":
        """Those of results with these metadata."""
        hardware, versions = metadata["hardware"], metadata["versions"]
        instructions = hardware.get("instructions", NOT_RECORDED)
        computed = hardware["cpu"], instructions, hardware["threads"], hardware["executor"], hardware["device"]
        return cls(*computed, versions["torch"], versions["numpy"], hardware.get("before", ""))

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        parts = self.processor, self.device, threads, self.executor, f"torch {self.torch}", f"numpy {self.numpy}"
        return ", ".join(dict.fromkeys(parts)) + (f" ({self.before})" if self.before else "")

    def agrees(self, other: "Circumstances") -> bool:
        """Whether bits can be compared; an instruction set that was not recorded agrees with any of its processor."""
        return not self.differences(other)

    def differences(self, here: "Circumstances") -> list[str]:
        """What is not as `here`, in words; empty where bits can be compared.

        What was computed under several circumstances, one after the other, is compared with nothing.
        """
        if self.before or here.before:
            return [f"other machines in earlier attempts ({self.before or here.before})"]
        mine, others = vars(self), vars(here)
        names = [name for name in mine if name != "instructions" and mine[name] != others[name]]
        return [f"{name} {mine[name]} (here {others[name]})" for name in names] + self._other_instructions(here)

    def _other_instructions(self, here: "Circumstances") -> list[str]:
        if self.instructions == here.instructions or NOT_RECORDED in (self.instructions, here.instructions):
            return []
        mine, others = set(self.instructions.split()), set(here.instructions.split())
        sets = {"{} (missing here)": mine - others, "no {} (present here)": others - mine}
        return [text.format(" ".join(sorted(names))) for text, names in sets.items() if names]


@dataclass(frozen=True)
class Candidate:
    """Results under earlier code that a planned cell could take over."""

    cell: Cell
    file: Path
    metadata: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The key of the earlier results."""
        key: str = self.metadata["key"]
        return key

    @property
    def store(self) -> Path:
        """The store that has the earlier results."""
        return self.file.parents[len(self.cell.file.relative_to(self.cell.store).parts) - 1]

    @property
    def circumstances(self) -> Circumstances:
        """Under which they were computed."""
        return Circumstances.of(self.metadata)

    @property
    def artifacts(self) -> dict[str, Path]:
        """The artifacts of the earlier results that the study asks for, by kind."""
        return self.cell.kept_beside(self.file)

    @property
    def incomplete(self) -> bool:
        """Whether artifacts that the study asks for are not there."""
        return not all(file.is_file() for file in self.artifacts.values())

    @property
    def edited(self) -> tuple[str, ...]:
        """The modules that differ between the earlier code and today's, or are in one of them alone."""
        before, now = self.metadata["modules"], _modules(self.cell)
        return tuple(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))


@dataclass(frozen=True)
class Group:
    """Candidates whose earlier code is the same, and so is today's."""

    method: str
    model: str
    code_before: str
    code_now: str
    circumstances: Circumstances
    candidates: list[Candidate] = field(default_factory=list)
    "Cells without results under today's code."
    checked: list[Candidate] = field(default_factory=list)
    "Cells that have been trained with today's code, under the same circumstances."

    @property
    def edited(self) -> tuple[str, ...]:
        """The modules that differ."""
        return (self.candidates or self.checked)[0].edited


def groups(cells: Iterable[Cell], store: Path | None = None) -> list[Group]:
    """The planned `cells` that have results under earlier code in `store` (None: in their own), in groups."""
    by_code: dict[tuple[Any, ...], Group] = {}
    for cell in {cell.key: cell for cell in cells}.values():
        for candidate in earlier(cell, store):
            fresh = facts(cell.file) if cell.done else None
            if fresh and (_rests_on_others(fresh) or not Circumstances.of(fresh).agrees(candidate.circumstances)):
                continue
            if cell.done and not fresh:
                continue  # damaged results, which the next run replaces
            codes = candidate.metadata["code"], cell.code
            name = cell.row.component.name, cell.model.name, *codes, candidate.circumstances
            group = by_code.setdefault(name, Group(*name))
            (group.checked if fresh else group.candidates).append(candidate)
            if not fresh:
                break  # the newest of several
    return sorted(
        (group for group in by_code.values() if group.candidates),
        key=lambda group: (group.method, group.model, group.circumstances),
    )


def _rests_on_others(metadata: Mapping[str, Any]) -> bool:
    """Whether results, or the state that they continued from, were adopted, so that they are no evidence."""
    return bool(metadata.get("adopted") or metadata.get("continued", {}).get("adopted"))


def earlier(cell: Cell, store: Path | None = None, complete: bool = True) -> Iterator[Candidate]:
    """Results of a cell under earlier code, the newest first; `complete`: with all artifacts that are asked for."""
    folder = (store or cell.store) / cell.file.parent.relative_to(cell.store)
    files = [file for file in folder.glob(f"s{cell.seed}-*.parquet") if file.name.count(".") == 1]
    known = [Candidate(cell, file, head) for file in files if file != cell.file and (head := facts(file))]
    for candidate in sorted(known, key=lambda candidate: candidate.metadata["finished"], reverse=True):
        if _is_of(candidate) and not (complete and candidate.incomplete):
            yield candidate


def _is_of(candidate: Candidate) -> bool:
    """Whether results are of the cell's settings and images."""
    cell, metadata = candidate.cell, candidate.metadata
    if candidate.key == cell.key or cell.is_of_other_images(metadata):
        return False
    return has_settings_of(cell, metadata["spec"])


def has_settings_of(cell: Cell, spec: Mapping[str, Any]) -> bool:
    """Whether a specification, perhaps of an earlier version, is that of a planned cell."""
    if spec["method"]["name"] != cell.row.component.name or spec["model"]["name"] != cell.model.name:
        return False
    partition, data = spec["partition"], spec["partition"]["data"]
    planned = cell.partition
    if partition["name"] != planned.component.name or data["name"] != planned.data.name:
        return False
    today = {
        "method": _today("methods", cell.row.component, spec["method"]),
        "model": _today("models", cell.model, spec["model"]),
        "training": identity_of_training(spec["training"]),
        "partition": _today("partition", planned.component, partition)
        | {"data": _today("data", planned.data.component, data) | _backbone(data)},
        "seed": spec["seed"],
    }
    return today == cell.spec


def _today(kind: str, component: Configured, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A component's part of a specification, with its settings as they enter today's keys."""
    return {**spec, "settings": identity(_description(kind, component.reference), spec["settings"])}


def _backbone(data: Mapping[str, Any]) -> dict[str, Settings]:
    return {"backbone": identity_of_backbone(data["backbone"])} if "backbone" in data else {}


_description = functools.cache(description)
"Components do not change while a command runs."


@functools.cache
def _modules_of(module: str, file: str | None, model: str, model_file: str | None) -> dict[str, str]:
    return modules_of_cell(module, file, model, model_file)


def _modules(cell: Cell) -> dict[str, str]:
    """The modules that count for a cell today, with their digests."""
    component = cell.row.component
    return _modules_of(component.module, component.file, cell.model.module, cell.model.file)
