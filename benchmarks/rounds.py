"""Rounds of a method, computed in one way: seconds, kernels, how long the card is busy, and memory.

``python -m benchmarks.rounds JOB`` serves: a line of entries that are laid over JOB, a job as of `benchmarks.worker`,
is answered with the numbers of a few rounds, the last of which is profiled and not timed.
"""

import gc
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.processes import serve
from benchmarks.worker import DEFAULTS, dealt, images, plain_rounds, prepare, simulation
from fedgrid.engine.local.devices import now
from fedgrid.engine.local.grouping import batches_per_call
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.loading import load

SLOW = ("plain", "loop")
"Kinds of which few rounds are asked for, since they take long."
COPIES = {"HtoD": "to_device", "DtoH": "to_host", "DtoD": "on_device"}
PARTS = ("train", "server", "evaluate")
"Of a round."


def warm(kind: str) -> int:
    """Rounds that are not timed; where forms are seen, captured, and replayed, three."""
    return 1 if kind in SLOW else 3


class Watch:
    """Looks at rounds as they end, and profiles the one after those that are timed."""

    def __init__(self, job: Mapping[str, Any]):
        self.device, self.warm = torch.device(job["device"]), warm(job["kind"])
        self.timed, self.done = self.warm + job["repeats"], 0
        self.cuda = self.device.type == "cuda"
        self.seconds: list[Mapping[str, float]] = []
        self.profiler = profile(activities=[ProfilerActivity.CUDA if self.cuda else ProfilerActivity.CPU])

    @property
    def rounds(self) -> int:
        """How many there are to be."""
        return self.timed + 1

    def round(self, seconds: Mapping[str, float]) -> None:
        """A round has ended, whose parts took so long."""
        self.done += 1
        if self.warm < self.done <= self.timed:
            self.seconds.append(seconds)
        if self.done >= self.timed:
            now(self.device)
            (self.profiler.stop if self.done > self.timed else self.profiler.start)()

    def counts(self) -> dict[str, float]:
        """Of the round that was profiled."""
        counts = counted(trace(self.profiler))
        if self.cuda and not counts["kernels"]:
            raise RuntimeError("the profiler saw no kernel")
        return counts


def measured(job: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of the parts of every round, counts of another one, evaluation included, and peak memory in bytes."""
    job = DEFAULTS | {"repeats": 5} | dict(job)
    prepare(job)
    if job["device"] == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    pixels, labels = images(job)
    lists, watch = dealt(job, labels), Watch(job)
    if job["kind"] == "plain":
        for _, seconds in zip(range(watch.rounds), plain_rounds(job, pixels, labels, lists), strict=False):
            watch.round(seconds)
    else:
        fedgrid_rounds(job, watch, pixels, labels, lists)
    memory = torch.cuda.max_memory_allocated() if job["device"] == "cuda" else 0
    parts = {name: [row.get(name, 0.0) for row in watch.seconds] for name in PARTS}
    return parts | watch.counts() | {"steps": steps(job, lists[0]), "device_memory": memory}


def steps(job: Mapping[str, Any], train: Sequence[Any]) -> int:
    """Of one training of a round: of every client or, where clients train together, of all that still have a batch."""
    of_clients = sum(-(-len(index) // job["batch_size"]) for index in train)
    return of_clients if job["kind"] in SLOW else round(of_clients / batches_per_call(train, job["batch_size"]))


def fedgrid_rounds(job: Mapping[str, Any], watch: Watch, pixels: Any, labels: Any, lists: Any) -> None:
    """Rounds of fedgrid."""
    where = simulation(job, pixels, labels, lists, watch.rounds)
    before: dict[str, float] = {}

    def tell(progress: Progress, remark: str) -> None:
        if progress.rounds:
            watch.round({name: seconds - before[name] for name, seconds in progress.seconds.items()})
        before.update(progress.seconds)

    outcome = federate(load("methods", job["method"])(), where, tell=tell)
    if outcome.status != "ok":
        raise RuntimeError(outcome.reason)


def trace(profiler: profile) -> list[dict[str, Any]]:
    """Events as a trace for chrome://tracing lists them, the only form that is the same in all versions of torch."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        return json.loads(file.read_text(encoding="utf-8"))["traceEvents"]


def counted(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """What a round has asked for; ``busy`` are seconds of kernels.

    ``launches`` are of single kernels and of graphs; ``synchronisations`` include one or two of the profiler's own.
    """
    counts, busy = Counter(), 0.0
    for event in events:
        kind, name = event.get("cat"), event.get("name", "")
        if kind in ("cuda_runtime", "cuda_driver"):
            counts["launches"] += "LaunchKernel" in name or "GraphLaunch" in name
            counts["synchronisations"] += "Synchronize" in name
        elif kind == "kernel":
            counts["kernels"] += 1
            busy += event["dur"] / 1e6
        elif kind == "gpu_memcpy":
            counts.update(copy for direction, copy in COPIES.items() if direction in name)
    names = ("launches", "kernels", "synchronisations", *COPIES.values())
    return {name: counts[name] for name in names} | {"busy": busy}


def main() -> None:
    job = json.loads(sys.argv[1])
    serve(lambda **entries: measured(job | entries))


if __name__ == "__main__":
    main()
