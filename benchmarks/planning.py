"""How long planning takes: 3,000 cells, looks at them, the lock, images dealt out. The end of ``make bench``.

Prints one line for each. Nothing is trained: results are made up, which only the time of planning is measured with.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml
from checkout import Checkout

from fedgrid.data.common.store import Labels
from fedgrid.files import write_table
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.loading import load, names
from fedgrid.run.lock import StoreLock

METRICS = ("accuracy_global", "accuracy_received", "accuracy_trained")
STUDY = {
    "name": "large",
    "data": "digits",
    "heterogeneity": [{"partition": "dirichlet", "beta": beta / 10, "clients": 4} for beta in range(1, 16)],
    "seeds": list(range(10)),
    "methods": {f"ditto {i}": {"method": "ditto", "lam": i / 10} for i in range(20)},
    "training": {"rounds": 1},
}
IMAGES, CLIENTS = 100_000, 1_000
REPEATS = 3


def main() -> None:
    """Measures everything, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="planning-") as folder:
        checkout = Checkout(Path(folder) / "tree", yaml.safe_dump(STUDY))
        with contextlib.chdir(checkout.path):
            plan_and_run(checkout)
    deal_out()


def plan_and_run(checkout: Checkout) -> None:
    """The commands of a study of 3,000 cells."""
    checkout.snakemake("--dry-run")  # describes the methods, which imports torch once
    message("dry run, 3,000 cells to train", lambda: checkout.snakemake("--dry-run"))
    cells = planned_study(Section(STUDY)).cells
    for cell in cells:
        train_without_training(cell)
    checkout.snakemake()
    message("dry run, 3,000 cells done", lambda: checkout.snakemake("--dry-run"))
    message("run with nothing to do", checkout.snakemake)
    message("fedgrid status, all done", lambda: status(checkout))
    for cell in cells[::2]:
        cell.file.unlink()
        cell.status.parent.mkdir(parents=True, exist_ok=True)
        cell.status.write_text(json.dumps({"state": "failed", "reason": "enough", "time": 0.0, "round": 0}))
    message("fedgrid status, half failed", lambda: status(checkout))
    lock = StoreLock(cells[0].store)
    lock.acquire()
    message("who holds the lock", StoreLock(cells[0].store).holder)
    lock.release()


def deal_out() -> None:
    """Every kind of partition that needs no domains."""
    labels = np.random.default_rng(0).integers(0, 10, IMAGES)
    writers = {"writer": np.arange(IMAGES) % (2 * CLIENTS)}
    names_of_writers = {"writer": tuple(f"{number:06}" for number in range(2 * CLIENTS))}
    pool = Labels(labels, IMAGES, 10, kept=writers, kept_names=names_of_writers)
    for kind in sorted(set(names("partition")) - {"file", "domains"}):
        partition = load("partition", kind)(clients=CLIENTS)
        message(
            f"{kind}, {IMAGES:,} images to {CLIENTS:,} clients", lambda partition=partition: partition.split(pool, 0)
        )


def status(checkout: Checkout) -> None:
    command = [sys.executable, "-m", "fedgrid.cli.main", "status"]
    subprocess.run(command, cwd=checkout.path, env=checkout.environment, check=True, capture_output=True)


def message(what: str, work: Callable[[], object]) -> None:
    """Says how long it takes: the median, and the range."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    print(f"{what}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})", flush=True)


def train_without_training(cell: Cell) -> None:
    """A result file with the right key and made-up numbers."""
    rows = [(r, c, m, ((hash(cell.key) + c) % 100) / 100) for r in (0, 1) for c in range(4) for m in METRICS]
    columns = dict(zip(("round", "client", "metric", "value"), zip(*rows, strict=True), strict=True))
    types = {"round": pa.int32(), "client": pa.int32(), "metric": pa.string(), "value": pa.float64()}
    table = pa.table({name: pa.array(columns[name], kind) for name, kind in types.items()})
    costs = {"seconds": {"train": 0.0, "evaluate": 0.0, "total": 0.0}, "peak_memory_bytes": 0}
    facts = {"status": "ok", "reason": "", "score": "received", "rounds": 1, "versions": {}, "hardware": {}}
    facts["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
    write_table(cell.file, table, facts | {"key": cell.key, "spec": cell.spec, "costs": costs})


if __name__ == "__main__":
    main()
