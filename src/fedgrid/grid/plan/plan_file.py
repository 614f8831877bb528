"""The plan of a run: a planned study as one file, from which every job of the run reads its work.

The study is planned once, where the run begins. What cells share, such as a partition, is in the file once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedgrid.errors import Damaged
from fedgrid.files import read_json, write_json
from fedgrid.grid.plan.cell_metadata import Commit
from fedgrid.grid.plan.choices import apply_choices
from fedgrid.grid.plan.model import Cell, PlannedDataset, PlannedPartition
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.codec import Shared, decode, encode
from fedgrid.grid.study.model import Configured, MethodRow

ONCE = (Cell, MethodRow, PlannedPartition, PlannedDataset, Configured)
"What a plan's file holds once."


@dataclass(frozen=True)
class Plan:
    """A study that is being run, with what the run adds to it."""

    study: Study
    configfile: str = ""
    "The study's file, as its user names it."
    packs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "Keys of the cells that share a job of a cluster, by the pack's name."
    commit: Commit | None = None
    "The commit of the code; see `fedgrid.grid.plan.commit`."
    manifests: Mapping[str, Path] = field(default_factory=dict)
    "By an experiment's name among the results, what its tables are made from; of those that `only` leaves out too."
    from_nothing: bool = False
    "Whether cells are trained from their first round whatever states are kept, as evidence has to be."

    def content(self) -> dict[str, Any]:
        """The plan as plain values, of which `read` makes it again."""
        shared = Shared(*ONCE)
        return {"plan": encode(self, shared), "shared": shared.values}

    @property
    def file(self) -> Path:
        """Where it is kept while its run is going: its name covers its content, so no other run ever changes it."""
        return self.study.store / "plans" / f"{self.study.folder.name}-{digest(self.content())}.json"

    def write(self, file: Path | None = None) -> Path:
        """Writes the plan to its `file`, even where it is there: a study's newest plan is that of its latest run."""
        file = file or self.file
        write_json(file, self.content())
        return file


def read(file: Path) -> Plan:
    """The plan in a file, with what searches have chosen by now.

    UserError where there is none, `Damaged` for one that is not what was written.
    """
    content = read_json(file)
    try:
        plan = decode(Plan, content["plan"], "plan", Shared(*ONCE, values=content["shared"]))
    except (ValueError, KeyError) as error:
        raise Damaged(file, "not a plan of this version of fedgrid") from error
    return replace(plan, study=apply_choices(plan.study))
