"""Studies that several tests run, and their plans."""

import subprocess
from pathlib import Path
from typing import Any

import yaml
from processes import warm_command

from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.jobs.partition import prepare

FOUR_CELLS = """
name: s
data: digits
heterogeneity: [{partition: dirichlet, beta: 0.5, clients: 4}]
seeds: [0, 1]
model: {name: mlp, hidden: 16, features: 8}
training: {rounds: 2}
methods: [local, fedavg]
"""
RUN = ["--beta", "0.5", "--clients", "4", "--rounds", "2", "--model-set", "hidden=16", "--model-set", "features=8"]
"Options with which `fedgrid run` trains a cell of such a study."


def parsed(text: str) -> dict[str, Any]:
    """The mapping of a YAML text, by libyaml where it is installed: ten times as fast, and tests read thousands."""
    mapping: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return mapping


def study_of(text: str = FOUR_CELLS, **changes: Any) -> Study:
    """The study of a YAML text with some keys replaced, resolved."""
    return planned_study(Section(parsed(text) | changes))


def prepared(study: Study) -> Study:
    """The study, with its data sets and partitions built."""
    for planned in study.partitions.values():
        prepare(planned, study)
    return study


def plan_of(study: Study, **run: Any) -> Path:
    """The file of a run's plan, written."""
    return Plan(study, **run).write()


def trained(cell: Cell, study: Study) -> subprocess.CompletedProcess:
    """The cell, trained by a process of its own as the workflow starts it."""
    return subprocess.run(cell_command(cell, study), check=True, capture_output=True, text=True)


def cell_command(cell: Cell, study: Study) -> list[str]:
    """Trains the cell in the warm worker where one listens, else in the process itself."""
    return warm_command("fedgrid.jobs.cell", str(plan_of(study)), cell.key)
