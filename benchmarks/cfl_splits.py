"""How far CFL's clusters depend on the order of batches: the same clients, trained with several seeds.

    FEDGRID_DATA=/path python -m benchmarks.cfl_splits

All runs of a data set have one partition. The seed of training gives the order of batches and the initial model: in
some of the runs the order alone differs, and all start from the first seed's model; in the others both differ. The
page has the round of the first split, the clusters at the end, and how often two clients end up together.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import adjusted_rand_score

from benchmarks.markdown import table
from fedgrid.engine.compute import Sources, simulation_of
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.rounds import federate
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.jobs import dataset, partition
from fedgrid.loading import load
from fedgrid.settings import Compute

RESULTS = Path(__file__).parent / "results/cfl_splits"
SEEDS = (0, 1, 2, 3, 4)
CLIENTS = {"partition": "dirichlet", "beta": 0.1, "clients": 20}
WORLDS: dict[str, dict[str, Any]] = {
    "A fifth of MNIST, LeNet-5, the notebook's bounds, t₀ = 2": {
        "data": "mnist",
        "heterogeneity": [CLIENTS | {"fraction": 0.2}],
        "model": {"name": "lenet5"},
        "training": {"rounds": 12, "batch_size": 16, "eval_every": 12},
        "methods": {"cfl": {"t0": 2}},
    },
    "Digits, a perceptron, relative bounds, t₀ = 5": {
        "data": "digits",
        "heterogeneity": [CLIENTS],
        "model": {"name": "mlp", "hidden": 128, "features": 64},
        "training": {"rounds": 30, "batch_size": 16, "eval_every": 30},
        "methods": {"cfl": {"bounds": "relative", "t0": 5}},
    },
}
"Studies of CFL by what their tables are called."
HEAD = """# How far CFL's clusters depend on the order of batches

Written by `python -m benchmarks.cfl_splits`: 20 clients (Dirichlet β = 0.1), batches of 16, one epoch a round, SGD at
0.05. All runs of a table have one partition. Their seed gives the order of batches and the initial model: in the first
half the order alone differs, and all start from seed 0's model; in the second half both differ."""


@dataclass(frozen=True)
class Run:
    """One run of CFL."""

    seed: int
    clusters: list[list[int]]
    "The number of each client's cluster after each round."

    @property
    def first(self) -> int | None:
        """The first round after which there are two clusters or more; None: there is none."""
        return next((done for done, numbers in enumerate(self.clusters, start=1) if len(set(numbers)) > 1), None)

    @property
    def last(self) -> list[int]:
        """The clusters at the end."""
        return self.clusters[-1]


def runs_of(text: Mapping[str, Any], seeds: Sequence[int], results: Path) -> dict[str, list[Run]]:
    """Runs of a study's cell by what differs between them; the first seed's run is in both lists."""
    settings = {"name": "cfl_splits", "results": str(results), "seeds": list(seeds), "partition_seed": 0}
    study = planned_study(Section(settings | dict(text)))
    for data in study.datasets.values():
        dataset.build(data, study)
    for planned in study.partitions.values():
        partition.build(planned)
    simulations = {cell.train_seed: simulation(cell) for cell in study.cells}
    first, *others = simulations
    of_first = run(study.cells[0], simulations[first])
    free = [run(cell, simulations[cell.train_seed]) for cell in study.cells[1:]]
    for seed in others:
        vars(simulations[seed])["initial"] = simulations[first].initial  # in place of the cached property
    fixed = [run(cell, simulations[cell.train_seed]) for cell in study.cells[1:]]
    return {"order of batches": [of_first, *fixed], "order and model": [of_first, *free]}


def simulation(cell: Cell) -> Simulation:
    """The simulation of a cell."""
    spec = cell.spec | {"model": cell.model.spec | {"name": cell.model.reference}}
    sources = Sources(spec, cell.row.component.reference, cell.partition.file, cell.partition.data.files)
    return simulation_of(sources, Compute(device="cpu"))


def run(cell: Cell, where: Simulation) -> Run:
    """All rounds of a cell."""
    method = load("methods", cell.row.component.reference)(**cell.spec["method"]["settings"])
    clusters: list[list[int]] = []
    outcome = federate(method, where, tell=lambda progress, _: clusters.append(progress.state.server.cluster.tolist()))
    if outcome.status != "ok":
        raise RuntimeError(outcome.reason)
    return Run(where.seed, clusters[1:])  # the first is before the first round


def members(numbers: Sequence[int]) -> list[list[int]]:
    """The clients of each cluster, those of the first client first."""
    return [[i for i, other in enumerate(numbers) if other == number] for number in dict.fromkeys(numbers)]


def pairs(runs: Sequence[Run]) -> tuple[int, int, int]:
    """Pairs of clients that end up in one cluster in all runs, in some, in none."""
    clients = range(len(runs[0].last))
    together = [sum(run.last[i] == run.last[j] for run in runs) for i, j in combinations(clients, 2)]
    always, never = together.count(len(runs)), together.count(0)
    return always, len(together) - always - never, never


def section(title: str, kinds: Mapping[str, Sequence[Run]]) -> str:
    """A data set's part of the page."""
    header = ["what differs", "seed", "first split", "clusters at the end", "adjusted Rand index with the first run's"]
    rows, notes = [], []
    for kind, runs in kinds.items():
        for run in runs:
            clusters = ", ".join("{" + " ".join(map(str, group)) + "}" for group in members(run.last))
            index = f"{adjusted_rand_score(runs[0].last, run.last):.2f}"
            rows.append([kind, run.seed, run.first or "–", clusters, index])
        always, sometimes, never = pairs(runs)
        rounds = ", ".join(str(run.first or "–") for run in runs)
        notes.append(
            f"* {kind[0].upper()}{kind[1:]}: first splits in round {rounds}; of {always + sometimes + never} pairs of "
            f"clients, {always} end up together in all runs, {sometimes} in some, {never} in none."
        )
    return "\n".join([f"## {title}", "", table(header, rows), "", *notes])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.cfl_splits", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--data", choices=[text["data"] for text in WORLDS.values()], help="only this data set")
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as results:
        chosen = {title: text for title, text in WORLDS.items() if given.data in (None, text["data"])}
        parts = [section(title, runs_of(text, given.seeds, Path(results))) for title, text in chosen.items()]
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "README.md").write_text("\n\n".join([HEAD, *parts]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
