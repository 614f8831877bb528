"""Ten thousand clients of whom one in a hundred takes part, against a hundred who all do: ``python -m
benchmarks.population``, a part of ``make bench``.

Both train and score a hundred clients a round, which have as many images, and take turns at it. Then the large one is
killed again and again, and what it ends with is compared with what it ends with undisturbed. The results go to
``benchmarks/results/<hardware>-population.md`` and ``.csv``.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.machine import facts, hardware
from benchmarks.markdown import spread, table
from benchmarks.processes import Worker, together
from fedgrid.engine.rounds import PARTS

IMAGES = 32
"Of a client, three quarters of them for training."
Row = dict[str, Any]


def job(method: str, participants: int, clients: int, checkpoint: Path) -> Row:
    """A cell of the CIFAR CNN on random images."""
    usual = {"method": method, "clients": clients, "images": IMAGES * clients, "equal": True, "drawn": True}
    share = {"participation": participants / clients, "eval_sample": participants, "checkpoint": str(checkpoint)}
    return usual | share


def side_by_side(methods: list[str], participants: int, clients: int, repeats: int, folder: Path) -> Iterator[Row]:
    """Seconds of every round, of few clients and of many."""
    for method in methods:
        sizes = (participants, clients)
        jobs = [job(method, participants, size, folder / f"{method}-{size}.pt") for size in sizes]
        with together(jobs) as workers:
            for repeat in range(repeats):
                for size, worker in zip(sizes, workers, strict=True):
                    found = worker.round()
                    own = {"method": method, "clients": size, "repeat": repeat, "memory": found["memory"]}
                    yield own | {"seconds": sum(found[part] for part in PARTS)}


def endured(method: str, participants: int, clients: int, kills: int, folder: Path) -> Row:
    """Whether a cell that was killed so often, each time in the middle of a round, ends as one that was not."""
    checkpoint, rounds, moments = folder / "killed.pt", 2 * kills + 2, random.Random(0)
    given = job(method, participants, clients, checkpoint) | {"checkpoint_every": 1e-9}
    for _ in range(kills):
        worker = Worker(**given)
        length = worker.round()["train"]
        worker.ask()
        time.sleep(length * moments.random())
        worker.kill()
    undisturbed = job(method, participants, clients, folder / "whole.pt")
    equal = ended(given, rounds) == ended(undisturbed, rounds)
    sizes = {file: sum(path.stat().st_size for path in folder.glob(f"killed{file}")) for file in (".pt", ".pt.rows")}
    return {"method": method, "kills": kills, "rounds": rounds, "equal": equal} | sizes


def ended(given: Row, rounds: int) -> str:
    """The digest of a cell after so many rounds, from its checkpoint on where it has one."""
    worker = Worker(**given)
    while worker.round()["rounds"] < rounds:
        pass
    found: str = worker.round("digest")["digest"]
    worker.close()
    return found


def compared(rows: list[Row], participants: int, clients: int) -> Iterator[list[str]]:
    """A line for each method."""
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        few, many = ([row for row in own if row["clients"] == size] for size in (participants, clients))
        ratios = [b["seconds"] / a["seconds"] for a, b in zip(few, many, strict=True)]
        seconds = [spread([row["seconds"] for row in group], 2) for group in (few, many)]
        memory = [f"{max(row['memory'] for row in group) / 2**20:,.0f} MiB" for group in (few, many)]
        yield [method, *seconds, spread(ratios, 2), *memory]


def page(rows: list[Row], after_kills: Row, participants: int, clients: int) -> str:
    """The results for people."""
    few, many = f"{participants} of {participants}", f"{participants} of {clients:,}"
    header = ["method", f"s a round, {few}", f"s a round, {many}", "ratio", f"memory, {few}", f"memory, {many}"]
    repeats = 1 + max(row["repeat"] for row in rows)
    outcome = "the same as" if after_kills["equal"] else "NOT the same as"
    return f"""# {participants} participants of {clients:,} clients

{table(("", ""), facts("cpu").items())}

The CIFAR CNN, {IMAGES} random images a client, three quarters of them for training, batch 16, one thread. In a round
{participants} clients train, and the models of {participants} are scored. Median (smallest–largest) of {repeats}
rounds that took turns.

{table(header, compared(rows, participants, clients))}

{after_kills["method"]}, {many}, was killed {after_kills["kills"]} times in {after_kills["rounds"]} rounds. Every
bit of the records and of the state is {outcome} undisturbed. The checkpoint has {after_kills[".pt"] / 2**20:.1f} MiB,
clients' rows beside it {after_kills[".pt.rows"] / 2**20:,.0f} MiB.
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.population", description="Cost of clients who sit a round out.")
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--participants", type=int, default=100)
    parser.add_argument("--methods", nargs="+", default=["fedavg", "fedper", "ditto", "fedcosr"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args(argv)
    sizes = given.participants, given.clients
    with tempfile.TemporaryDirectory(prefix="population-") as folder:
        rows = list(side_by_side(given.methods, *sizes, given.repeats, Path(folder)))
        after_kills = endured(given.methods[-1], *sizes, given.kills, Path(folder))
    place = given.out / f"{hardware('cpu')}-population"
    pd.DataFrame(rows).to_csv(f"{place}.csv", index=False, lineterminator="\n")
    Path(f"{place}.md").write_text(page(rows, after_kills, *sizes), encoding="utf-8")
    print(f"{place}.md")
    return 0 if after_kills["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
