"""One GPU, or the processor where there is none: are its numbers right, how fast is it, what do rounds ask of it?

``python -m benchmarks.gpu`` or ``make bench-gpu``. It needs torch and what fedgrid trains with, nothing of the
workflow. The parts follow each other as `PARTS` lists them, each with a share of the time that is left. Rows go to
``benchmarks/results/<card>-bench-gpu.csv`` as they are measured, so that an interruption loses only what was in the
making. The page beside it, of `benchmarks.gpu_page`, is written anew after every part.
"""

import argparse
import csv
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import torch

from benchmarks import gpu_page
from benchmarks.convolutions import LAYERS, LOWERINGS, PASSES, PRECISIONS
from benchmarks.machine import facts, hardware
from benchmarks.mps import multi_process_service
from benchmarks.processes import OVER, ROOT, Failed, answers, answers_of_many, first_line, together
from benchmarks.rounds import PARTS as ROUND_PARTS
from benchmarks.rounds import SLOW, warm
from fedgrid.loading import names

Row = dict[str, Any]
COLUMNS = (
    *("section", "name", "value", "method", "kind", "tf32", "clients", "images", *ROUND_PARTS),
    *("seconds", "least", "most", "repeats", "steps", "busy", "launches", "kernels"),
    *("to_device", "to_host", "on_device", "synchronisations"),
    *("device_memory", "difference", "replayed", "cells", "rounds", "rate"),
    *("layer", "lowering", "precision", *PASSES, "error"),
)
"Of the CSV; seconds, bytes, rounds a second."
KINDS = {"cpu": ("loop", "stacked"), "cuda": ("loop", "stacked", "captured", "lowered")}
"The executors that a device has."
FASTEST = {"cpu": "stacked", "cuda": "lowered"}
"That of which many cells run at a time."
WITHOUT_PLAIN = ("fedsac", "fedrep")
"Methods that benchmarks/plain.py does not have."
PER_CLIENT = 40
"Images of a client at least, on average: with fewer, Dirichlet 0.1 hardly gives everybody some."
SIZES = {"cuda": (8000, (20, 1, 4, 8, 50, 200)), "cpu": (800, (4, 1, 8))}
"Of a `Plan`: images; numbers of clients in a convolution, in the order in which they are measured."
REPRESENTATIVES = ("fedavg", "fedcosr", "fedsac", "fedrep", "perfedavg", "ditto", "scaffold", "apfl", "fedproc")
"Methods that are compared first."
PATIENCE = 60.0
"Seconds in which a process has to answer to a question, its start included."


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    device: str
    images: int
    "Of all clients, however many these are, three quarters of them for training."
    compared: tuple[str, ...]
    convolved: tuple[int, ...]
    "Numbers of clients whose convolution is timed alone."
    methods: tuple[str, ...] = ("fedavg", "fedcosr", "fedrep", "fedsac")
    kinds: tuple[str, ...] = ()
    "What is timed; empty: the plain baseline and all executors of the device."
    cells: tuple[int, ...] = (1, 8, 4, 2)
    window: float = 4.0
    "Seconds for which cells run side by side, about."

    def job(self, method: str, kind: str, clients: int = 20, images: int | None = None) -> Row:
        """A job as of `benchmarks.worker`, with the plan's images unless given, but not too few."""
        images = max(images or self.images, PER_CLIENT * clients)
        what = {"method": method, "kind": kind, "clients": clients, "images": images}
        return what | {"device": self.device, "batch_size": 16, "drawn": True}

    def variants(self, method: str) -> list[Row]:
        """What a method is timed with, as entries of its jobs; the last again with TF32, which only a GPU knows."""
        kinds = self.kinds or ("plain", *KINDS[self.device][::-1])
        variants = [{"kind": kind} for kind in kinds if kind != "plain" or method not in WITHOUT_PLAIN]
        return variants + [{"kind": FASTEST["cuda"], "tf32": True}] * (self.device == "cuda")


Measure = Callable[[Plan, float], Iterator[Row]]
"Measures a plan until a moment of `time.monotonic`."


def correct(plan: Plan, deadline: float) -> Iterator[Row]:
    """Methods and executors against the processor, see `benchmarks.agreement`: first those that matter most."""
    first = [method for method in REPRESENTATIVES if method in plan.compared]
    others = [method for method in plan.compared if method not in first]
    kinds = KINDS[plan.device][::-1]
    pairs = [(method, kind) for method in first for kind in kinds[:2]]
    pairs += [(method, kinds[0]) for method in others]
    pairs += [(method, kind) for method in plan.compared for kind in kinds if (method, kind) not in pairs]
    questions = [{"method": method, "kind": kind} for method, kind in pairs]
    yield from answers_of_many("benchmarks.agreement", {"device": plan.device}, questions, deadline, PATIENCE)


def timed(plan: Plan, deadline: float, clients: int = 20, images: int | None = None) -> Iterator[Row]:
    """Rounds of every method in all ways, see `benchmarks.rounds`."""
    questions = [
        {"method": method, "clients": clients, "images": plan.job(method, "", clients, images)["images"]} | variant
        for method in plan.methods
        for variant in plan.variants(method)
    ]
    for question in questions:
        question["repeats"] = 2 if question["kind"] in SLOW else 5
    for row in answers("benchmarks.rounds", plan.job("", ""), questions, deadline, PATIENCE):
        yield row if "error" in row else summary(row)


def summary(row: Row) -> Row:
    """Medians of the parts of rounds, and the shortest and longest round."""
    rounds = [sum(parts) for parts in zip(*(row[name] for name in ROUND_PARTS), strict=True)]
    middle = {name: statistics.median(row[name]) for name in ROUND_PARTS}
    return row | middle | {"seconds": statistics.median(rounds), "least": min(rounds), "most": max(rounds)}


def convolutions(plan: Plan, deadline: float) -> Iterator[Row]:
    """Seconds of a convolution alone, see `benchmarks.convolutions`; only a GPU knows TF32."""
    precisions = PRECISIONS if plan.device == "cuda" else PRECISIONS[:1]
    questions = [
        {"layer": layer, "clients": clients, "lowering": lowering, "precision": precision}
        for layer in LAYERS
        for clients in plan.convolved
        for precision in precisions
        for lowering in LOWERINGS
    ]
    for row in answers("benchmarks.convolutions", {"device": plan.device}, questions, deadline, PATIENCE):
        yield row
        if time.monotonic() >= deadline:  # one line tells, not one for each question that is left
            return


def cells(plan: Plan, deadline: float, kinds: tuple[str, ...] = ()) -> Iterator[Row]:
    """Rounds a second of several processes with the same cell, and of as many with the plain loop, unless `kinds`."""
    for kind in kinds or (FASTEST[plan.device], "plain"):
        job = plan.job("fedavg", kind, images=plan.images // 4)
        with together([job] * max(plan.cells)) as workers:
            for _ in range(warm(kind)):
                alone = [seconds(worker.round(deadline=deadline)) for worker in workers][-1]
            for count in plan.cells:
                rounds = max(1, int(plan.window / alone / count))
                start = time.monotonic()
                for worker in workers[:count]:
                    for _ in range(rounds):
                        worker.ask()
                for worker in workers[:count]:
                    for _ in range(rounds):
                        worker.answer(deadline)
                rate = count * rounds / (time.monotonic() - start)
                yield job | {"cells": count, "rounds": count * rounds, "rate": rate}


def cells_side_by_side(plan: Plan, deadline: float) -> Iterator[Row]:
    """The same under NVIDIA's MPS; nothing without a GPU."""
    if plan.device == "cuda":
        with multi_process_service():
            yield from cells(plan, deadline, (FASTEST["cuda"],))


def seconds(answer: Row) -> float:
    """Of a whole round."""
    return sum(answer.get(name, 0.0) for name in ROUND_PARTS)


PARTS: dict[str, tuple[float, Measure]] = {
    "correct": (0.2, correct),
    "rounds, 100 clients": (0.3, partial(timed, clients=100)),
    "rounds, 20 clients": (0.4, timed),
    "cells": (0.5, cells),
    gpu_page.SIDE_BY_SIDE: (0.5, cells_side_by_side),
    "rounds, 200 clients": (0.7, partial(timed, clients=200)),
    "convolutions": (0.5, convolutions),
    "rounds, 50,000 images": (1.0, partial(timed, images=50_000)),
}
"By the name of its rows: the share of the time left that a part may take, and the part. The first ones matter most."


class Table:
    """The CSV, in which a row is as soon as it was measured."""

    def __init__(self, file: TextIO):
        self.file, self.writer = file, csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        self.writer.writeheader()

    def keep(self, row: Row) -> None:
        """Writes a row, which is then on its way to the disk."""
        self.writer.writerow(row)
        self.file.flush()


def run(plan: Plan, budget: float, file: Path, parts: dict[str, tuple[float, Measure]]) -> Path:
    """All parts in `budget` seconds; the page. What a part raises is a row of it."""
    end = time.monotonic() + budget
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as opened:
        table = Table(opened)
        for name, value in facts(plan.device).items():
            table.keep({"section": "machine", "name": name, "value": value})
        for name, (share, measure) in parts.items():
            left = max(0.0, end - time.monotonic())
            print(f"{name}: at most {share * left:.0f} s", file=sys.stderr, flush=True)
            try:
                for row in measure(plan, time.monotonic() + share * left) if left else [{"error": OVER}]:
                    table.keep(row | {"section": name})
            except (Failed, TimeoutError) as error:
                table.keep({"section": name, "error": str(error)})
            except Exception as error:
                table.keep({"section": name, "error": first_line(error)})
            finally:
                page = gpu_page.write(file)
    return page


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))  # after the page, and without its processes
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cpu", "cuda"), default=default, help="(default: a GPU, if there is one)")
    parser.add_argument("--seconds", type=float, default=240, help="for everything (default: 240)")
    parser.add_argument("--quick", action="store_true", help="little of each part, to see that it works")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder of page and table")
    asked = parser.parse_args(argv)
    if asked.device == "cuda" and default == "cpu":
        parser.error("torch sees no GPU here")
    examples = sorted(file.relative_to(ROOT) for file in ROOT.glob("tests/methods/examples/*.py"))
    images, convolved = SIZES[asked.device]
    plan = Plan(asked.device, images, compared=(*names("methods"), *map(str, examples)), convolved=convolved)
    parts = PARTS
    if asked.quick:
        few: dict[str, Any] = {"methods": ("fedavg",), "kinds": ("loop",), "cells": (1,), "window": 0.1}
        plan = Plan(asked.device, images=160, compared=("fedavg",), convolved=(1,), **few)
        parts = {name: part for name, part in PARTS.items() if not name.startswith("rounds") or "20 clients" in name}
    print(run(plan, asked.seconds, asked.out / f"{hardware(asked.device)}-bench-gpu.csv", parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
