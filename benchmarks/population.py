"""Ten thousand clients of whom one in a hundred takes part, against a hundred who all do: ``python -m
benchmarks.population``, a part of ``make bench``.

All train and score a hundred clients a round, which have as many images, and take turns at it. Then a cell of the ten
thousand is killed again and again, and what it ends with is compared with what it ends with undisturbed. Last, the
whole command ``fedgrid run`` of such a cell is measured. The results go to
``benchmarks/results/<hardware>-population.md`` and ``.csv``.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.machine import facts, hardware
from benchmarks.markdown import spread, table
from benchmarks.processes import ROOT, Failed, Worker, together
from fedgrid.engine.rounds import PARTS
from fedgrid.jobs.machine import MAXRSS_UNIT

IMAGES = 32
"Of a client, three quarters of them for training."
COMMAND_ROUNDS = 3
"Of the whole command."
Row = dict[str, Any]


def cells(method: str, participants: int, clients: int, folder: Path) -> dict[str, Row]:
    """Cells of the CIFAR CNN on random images: few clients; many, of whom the same ones train; many, drawn anew."""
    few = {"method": method, "drawn": True, "equal": True, "eval_sample": participants}
    few |= {"clients": participants, "images": IMAGES * participants}
    many = few | {"clients": clients, "images": IMAGES * clients}
    kinds = {
        "few": few,
        "same": many | {"learning": participants},
        "anew": many | {"participation": participants / clients},
    }
    return {kind: job | {"checkpoint": str(folder / f"{method}-{kind}.pt")} for kind, job in kinds.items()}


def side_by_side(jobs: dict[str, Row], repeats: int) -> Iterator[Row]:
    """Seconds of every round, of few clients and of many."""
    with together(jobs.values()) as workers:
        for repeat in range(repeats):
            for kind, worker in zip(jobs, workers, strict=True):
                timed_round = worker.round()
                own = {"kind": kind, "method": jobs[kind]["method"], "repeat": repeat, "memory": timed_round["memory"]}
                yield own | {"seconds": sum(timed_round[part] for part in PARTS)}


def endured(job: Row, kills: int, folder: Path) -> Row:
    """Whether a cell that was killed so often, each time in the middle of a round, ends as one that was not."""
    checkpoint, rounds, moments = folder / "killed.pt", 2 * kills + 2, random.Random(0)
    given = job | {"checkpoint": str(checkpoint), "checkpoint_every": 1e-9}
    for _ in range(kills):
        worker = Worker(**given)
        length = worker.round()["train"]
        worker.ask()
        time.sleep(length * moments.random())
        worker.kill()
    undisturbed = job | {"checkpoint": str(folder / "whole.pt")}
    equal = ended(given, rounds) == ended(undisturbed, rounds)
    sizes = {file: sum(path.stat().st_size for path in folder.glob(f"killed{file}")) for file in (".pt", ".pt.rows")}
    return {"method": job["method"], "kills": kills, "rounds": rounds, "equal": equal} | sizes


def ended(given: Row, rounds: int) -> str:
    """The digest of a cell after so many rounds, from its checkpoint on where it has one."""
    worker = Worker(**given)
    while worker.round()["rounds"] < rounds:
        pass
    digest: str = worker.round("digest")["digest"]
    worker.close()
    return digest


def whole_command(method: str, participants: int, clients: int, store: Path) -> Row:
    """Seconds and largest resident memory of ``fedgrid run`` from its start to its end, in an empty store."""
    options = {
        "data": "synthetic",
        "partition": "dirichlet",
        "beta": 1,
        "clients": clients,
        "participation": participants / clients,
        "rounds": COMMAND_ROUNDS,
        "eval-every": COMMAND_ROUNDS,
        "model": "cnn",
        "results": store,
    }
    command = [sys.executable, "-m", "fedgrid.cli.main", "run", method]
    command += [f"--{name}={value}" for name, value in options.items()]
    command += [f"--data-set=train_images={IMAGES * clients}", f"--data-set=test_images={clients}"]
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=sys.stderr
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(f"{' '.join(command)} ended with code {process.returncode}")
    return {"method": method, "seconds": time.perf_counter() - start, "memory": usage.ru_maxrss * MAXRSS_UNIT}


def of_commands(measured: list[Row]) -> Iterator[list[str]]:
    """A line for each method."""
    for row in measured:
        yield [row["method"], f"{row['seconds']:,.0f}", f"{row['memory'] / 2**20:,.0f} MiB"]


def compared(rows: list[Row]) -> Iterator[list[str]]:
    """A line for each method."""
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        few, same, anew = ([row for row in own if row["kind"] == kind] for kind in ("few", "same", "anew"))
        seconds = [spread([row["seconds"] for row in group], 2) for group in (few, same, anew)]
        ratios = [[b["seconds"] / a["seconds"] for a, b in zip(few, many, strict=True)] for many in (same, anew)]
        memory = [f"{max(row['memory'] for row in group) / 2**20:,.0f} MiB" for group in (few, same, anew)]
        yield [method, *seconds, *(spread(own, 2) for own in ratios), *memory]


def after_kills(rows: list[Row]) -> Iterator[list[str]]:
    """A line for each method."""
    for row in rows:
        sizes = (f"{row[file] / 2**20:,.1f} MiB" for file in (".pt", ".pt.rows"))
        yield [row["method"], f"{row['kills']}", f"{row['rounds']}", "yes" if row["equal"] else "**no**", *sizes]


def page(rows: list[Row], killed: list[Row], commands: list[Row], participants: int, clients: int) -> str:
    """The results for people."""
    kinds = f"{participants} of {participants}", f"same {participants}", "drawn anew"
    parts = [f"s a round, {kind}" for kind in kinds], [f"ratio, {kind}" for kind in kinds[1:]]
    header = ["method", *parts[0], *parts[1], *(f"memory, {kind}" for kind in kinds)]
    repeats = 1 + max(row["repeat"] for row in rows)
    ends = ["method", "kills", "rounds", "every bit equal", "checkpoint", "clients' rows beside it"]
    return f"""# {participants} participants of {clients:,} clients

{table(("", ""), facts("cpu").items())}

The CIFAR CNN, {IMAGES} random images a client, three quarters of them for training, batch 16, one thread. In a round
{participants} clients train, and the models of {participants} are scored: all of {participants}; or, of {clients:,},
the same {participants} in every round, the others having no training images; or {participants} of {clients:,} drawn
anew in every round, and a sample of {participants} scored. Median (smallest–largest) of {repeats} rounds that took
turns. A method that does something once for each newcomer does it in nearly every turn where participants are drawn.

{table(header, compared(rows))}

Killed in the middle of a round, {participants} of {clients:,} drawn anew, and compared with an undisturbed run, records
and state:

{table(ends, after_kills(killed))}

{command_section(commands, participants, clients)}"""


def command_section(commands: list[Row], participants: int, clients: int) -> str:
    """The part of the page on the whole command."""
    header = ["method", "seconds, all of it", "largest resident memory"]
    return f"""`fedgrid run` from its start, in an empty store, to its results: {IMAGES * clients:,} grey training
images of 28 × 28 and {clients:,} test images are drawn and written, dealt out to {clients:,} clients
(Dirichlet 1.0), and trained on for {COMMAND_ROUNDS} rounds of {participants} clients; the models of all {clients:,}
are scored at the start and at the end. One process, one thread:

{table(header, of_commands(commands))}
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
    rows: list[Row] = []
    killed: list[Row] = []
    commands: list[Row] = []
    for method in given.methods:
        with tempfile.TemporaryDirectory(prefix="population-") as folder:
            jobs = cells(method, given.participants, given.clients, Path(folder))
            rows += side_by_side(jobs, given.repeats)
        with tempfile.TemporaryDirectory(prefix="population-") as folder:
            killed.append(endured(jobs["anew"], given.kills, Path(folder)))
        with tempfile.TemporaryDirectory(prefix="population-") as folder:
            commands.append(whole_command(method, given.participants, given.clients, Path(folder)))
    place = given.out / f"{hardware('cpu')}-population"
    pd.DataFrame(rows).to_csv(f"{place}.csv", index=False, lineterminator="\n")
    Path(f"{place}.md").write_text(page(rows, killed, commands, given.participants, given.clients), encoding="utf-8")
    print(f"{place}.md")
    return 0 if all(row["equal"] for row in killed) else 1


if __name__ == "__main__":
    sys.exit(main())
