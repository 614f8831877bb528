"""What a round asks of a GPU: kernels, copies, and how often the processor waits, counted by torch's profiler.

``python -m benchmarks.launches JOB`` serves: a line of entries that are laid over JOB, a job as of `benchmarks.worker`,
is answered with the numbers of one round.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

from benchmarks.processes import serve
from benchmarks.worker import DEFAULTS, dealt, images, prepare, simulation
from fedgrid.engine.local.devices import now
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.loading import load

WARM = 2
"Rounds before the one that is profiled; the last of them is timed."
COPIES = {"HtoD": "to_device", "DtoH": "to_host", "DtoD": "on_device"}


def of_a_round(job: Mapping[str, Any]) -> dict[str, float]:
    """Counts of a round with its evaluation, see `counted`, and the ``seconds`` of the round before, unprofiled."""
    job = DEFAULTS | dict(job)
    prepare(job)
    pixels, labels = images(job)
    where = simulation(job, pixels, labels, dealt(job, labels), WARM + 1)
    cuda = where.device.type == "cuda"
    profiler = profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU])
    ends = {}

    def tell(progress: Progress, remark: str) -> None:
        ends[progress.rounds] = sum(progress.seconds.values())
        now(where.device)
        if progress.rounds == WARM:
            profiler.start()
        elif progress.rounds > WARM:
            profiler.stop()

    outcome = federate(load("methods", job["method"])(), where, tell=tell)
    if outcome.status != "ok":
        raise RuntimeError(outcome.reason)
    counts = counted(trace(profiler))
    if cuda and not counts["kernels"]:
        raise RuntimeError("the profiler saw no kernel")
    return counts | {"seconds": ends[WARM] - ends[WARM - 1]}


def trace(profiler: profile) -> list[dict[str, Any]]:
    """Events as a trace for chrome://tracing lists them, the only form that is the same in all versions of torch."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        return json.loads(file.read_text(encoding="utf-8"))["traceEvents"]


def counted(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """What a round has asked for; ``busy`` are seconds of kernels.

    ``synchronisations`` include one or two of the profiler's own.
    """
    counts, busy = Counter(), 0.0
    for event in events:
        kind, name = event.get("cat"), event.get("name", "")
        if kind in ("cuda_runtime", "cuda_driver"):
            counts["launches"] += "LaunchKernel" in name
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
    serve(lambda **entries: of_a_round(job | entries))


if __name__ == "__main__":
    main()
