"""Does a device compute the processor's numbers? Three rounds of a small federation in float64, for any method.

``python -m benchmarks.agreement '{"device": "cuda"}'`` serves: a line {method, kind} is answered with one number, see
`compared`. What all executors are compared with is the processor's loop.
"""

import json
import math
import sys
from dataclasses import fields
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from benchmarks.processes import serve
from benchmarks.worker import DEFAULTS, dealt, images, prepare, simulation
from fedgrid.engine.local.captured import Captured
from fedgrid.engine.local.executor import Executor
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.loading import load
from fedgrid.tree import leaves

FLOOR = 1e-3
"Differences are relative to a tensor's largest number, or to this where that is smaller."
WORLD = DEFAULTS | {
    "model_settings": {"channels": 4, "features": 8},
    "side": 16,
    "clients": 4,
    "images": 160,
    "batch_size": 8,
    "dtype": "float64",
    "drawn": True,
}
ROUNDS, STEPS = 3, 5
"""Rounds, of which the executors of a GPU compute the first as any other; local steps of methods that count those of
their clients themselves."""


def compared(method: str, kind: str, device: str) -> dict[str, float]:
    """The largest relative ``difference`` from the processor's loop, over the state and all recorded numbers.

    Of an executor that captures also how many trainings and passes were ``replayed``.
    """
    ours, executor = computed(method, kind, device)
    replayed = {"replayed": executor.counts["replayed"]} if isinstance(executor, Captured) else {}
    return {"difference": difference(ours, reference(method))} | replayed


@lru_cache(maxsize=1)  # executors of a method are asked for one after the other
def reference(method: str) -> Progress:
    return computed(method, "loop", "cpu")[0]


def computed(method: str, kind: str, device: str) -> tuple[Progress, Executor]:
    """The federation after its rounds, and what has computed it; RuntimeError where it diverges."""
    job = WORLD | {"kind": kind, "device": device}
    prepare(job)
    pixels, labels = images(job)
    where = simulation(job, pixels, labels, dealt(job, labels), ROUNDS)
    component = load("methods", method)
    brief = {"local_steps": STEPS} if "local_steps" in {field.name for field in fields(component)} else {}
    outcome = federate(component(**brief), where)
    if outcome.status != "ok":
        raise RuntimeError(f"{outcome.status} with {kind} on {device}: {outcome.reason}")
    return outcome.progress, where.executor


def difference(ours: Progress, theirs: Progress) -> float:
    """The largest relative difference; infinite where they differ in more than numbers."""
    first, second = ([*leaves(p.state.server), *leaves(p.state.clients)] for p in (ours, theirs))
    recorded = list(zip(ours.record.rows, theirs.record.rows, strict=True))
    if any(own[:3] != other[:3] for own, other in recorded):
        return math.inf
    values = [(torch.tensor(own[3]), torch.tensor(other[3])) for own, other in recorded]
    return max(apart(a.cpu(), b) for a, b in [*zip(first, second, strict=True), *values])


def apart(ours: Tensor, theirs: Tensor) -> float:
    """Relative to the largest number of the tensor; infinite where shapes or places of NaN differ."""
    ours, theirs = ours.double(), theirs.double()
    if ours.shape != theirs.shape or not torch.equal(ours.isnan(), theirs.isnan()):
        return math.inf
    if not theirs.numel():
        return 0.0
    known = theirs.nan_to_num()
    return float((ours.nan_to_num() - known).abs().max() / known.abs().max().clamp(min=FLOOR))


def main() -> None:
    job: dict[str, Any] = json.loads(sys.argv[1])
    serve(lambda method, kind: compared(method, kind, job["device"]))


if __name__ == "__main__":
    main()
