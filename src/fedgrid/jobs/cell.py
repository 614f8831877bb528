"""One cell: a method on a partition with a seed, from its files to one Parquet file of results.

Run as ``python -m fedgrid.jobs.cell JOB --out FILE``, where JOB is the JSON of `fedgrid.grid.cells.Cell.job`.
"""

import argparse
import json
import platform
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fedgrid
from fedgrid.engine import client_data
from fedgrid.engine.artifacts import keep
from fedgrid.engine.devices import chosen
from fedgrid.engine.executor import Executor
from fedgrid.engine.federation import World, dtype_of
from fedgrid.engine.loop import Loop
from fedgrid.engine.method import Method
from fedgrid.engine.progress import Progress
from fedgrid.engine.rounds import Outcome, Saving, Terminated, federate
from fedgrid.engine.stacked import Stacked, batches_per_call
from fedgrid.errors import UserError, complain, say, sentence
from fedgrid.files import beside, read_metadata, turn, write_table
from fedgrid.grid.identity import fingerprint
from fedgrid.jobs.gpus import own_card
from fedgrid.jobs.reporting import ASKED_TO_END, MAXRSS_UNIT, TERMINATED, Report, Status
from fedgrid.loading import load, locate
from fedgrid.settings import Training

FLOPS_OF_OVERHEAD, CLIENTS_WORTH_A_CALL = 4e6, 6
"Where a stack of clients is faster on a processor: measured by benchmarks/throughput.py, see benchmarks/results."
OF_MEMORY = ("out of memory", "allocate memory")
"Words of errors that torch raises for lack of memory."
Tell = Callable[[Progress, str], None]


@dataclass(frozen=True)
class Compute:
    """How a cell is computed; no part of its identity, for the numbers are the same, to rounding."""

    device: str = "auto"
    threads: int = 1
    "Threads of one operation."
    executor: str = "auto"
    "``loop``, ``stacked``, or what `executor_for` finds."
    client_chunk: int | str = "auto"
    "Clients that the stacked executor trains together; auto: as many as fit into memory."
    gpu_share: int = 1
    "Cells that compute on one GPU at a time."


def run(
    job: Mapping[str, Any], out: Path, saving: Saving, compute: Compute | None = None, tell: Tell | None = None
) -> Outcome:
    """Trains the cell of a job and writes its results to `out`; the checkpoint is removed at the end.

    On a machine with GPUs it first takes a place on one of them, and waits for it; see `fedgrid.jobs.gpus`.
    """
    compute = compute or Compute()
    with own_card(compute.device, compute.gpu_share):
        return _run(job, out, saving, compute, tell)


def _run(job: Mapping[str, Any], out: Path, saving: Saving, compute: Compute, tell: Tell | None) -> Outcome:
    torch.set_num_threads(compute.threads)
    _check_code(job)
    spec = job["spec"]
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = spec["training"]["tf32"]
    method = load("methods", job["code"]["reference"])(**spec["method"]["settings"])
    world = _world(job, compute)
    outcome = federate(method, world, saving, tell)
    if signal.getsignal(signal.SIGTERM) is _terminate:
        _ignore()  # what is left takes less time than doing a round again
    _check_code(job)
    keep(job["keep"], out, method, world, outcome.progress)
    write_table(out, outcome.progress.record.table(), _metadata(job, method, world, outcome))
    with suppress(OSError):  # it is of no use any more, and does no harm
        saving.file.unlink(missing_ok=True)
    return outcome


def _check_code(job: Mapping[str, Any]) -> None:
    """Raises UserError where the code is no longer that of the cell's key: its result would bear a false name."""
    code = job["code"]
    _, module, file = locate("methods", code["reference"])
    if fingerprint(module, file, code["also"]) != code["fingerprint"]:
        raise UserError("the code was edited since this cell was planned: run the same command again")


def _world(job: Mapping[str, Any], compute: Compute) -> World:
    spec, files = job["spec"], job["files"]
    device, training = chosen(compute.device), Training(**spec["training"])
    places = {part: Path(file) for part, file in files["data"].items()}
    images = client_data.load(places, Path(files["partition"]), device, dtype_of(training))
    model = load("models", spec["model"]["name"])(**spec["model"]["settings"])
    _, channels, height, width = images.images.shape
    network = model.network((height, width, channels), images.classes)
    if training.dtype == "bfloat16-mixed":
        network = network.in_bfloat16()
    flops = network.flops((height, width, channels)) * training.batch_size
    together = training.participation * batches_per_call(images.train, training.batch_size)
    executor = executor_for(compute, device, flops, together)
    return World(images, network, training, executor, spec["seed"], device)


def executor_for(compute: Compute, device: torch.device, flops: int, together: float) -> Executor:
    """The executor that was asked for; `auto` is stacked on a GPU, and on a processor for small steps of many clients.

    There a small step (`flops` of the forward pass of a batch) is mostly overhead, which a stack shares if it serves
    enough clients at a time (`together`, on average); a large step fills the processor by itself.
    """
    kind = compute.executor
    if kind == "auto":
        shared = flops <= FLOPS_OF_OVERHEAD and together >= CLIENTS_WORTH_A_CALL
        kind = "stacked" if device.type == "cuda" or shared else "loop"
    if kind == "loop":
        return Loop()
    return Stacked(None if compute.client_chunk == "auto" else int(compute.client_chunk))


def _metadata(job: Mapping[str, Any], method: Method, world: World, outcome: Outcome) -> dict[str, Any]:
    progress = outcome.progress
    on_gpu = world.device.type == "cuda"
    # summed over all attempts of a cell that was interrupted; starting and loading are not part of it
    costs = {"seconds": progress.seconds | {"total": sum(progress.seconds.values())}}
    costs["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT
    costs["peak_device_memory_bytes"] = torch.cuda.max_memory_allocated(world.device) if on_gpu else 0
    versions = {"python": platform.python_version(), "fedgrid": fedgrid.__version__}
    versions |= {"torch": torch.__version__, "numpy": np.__version__}
    hardware = {"host": socket.gethostname(), "cpu": processor(), "threads": torch.get_num_threads()}
    hardware["executor"] = type(world.executor).__name__.lower()
    hardware["device"] = torch.cuda.get_device_name(world.device) if on_gpu else "cpu"
    return {
        "key": job["key"],
        "spec": job["spec"],
        "code": job["code"]["fingerprint"],
        "status": outcome.status,
        "reason": outcome.reason,
        "score": method.score,
        "rounds": progress.rounds,
        "costs": costs,
        "versions": versions,
        "hardware": hardware,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def processor() -> str:
    """The processor's name, as the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def heed_sigterm() -> None:
    """From now on SIGTERM, or SIGUSR1, breaks off the round at hand, once; `federate` keeps what was reached."""
    for number in ASKED_TO_END:
        signal.signal(number, _terminate)


def _terminate(*_: object) -> None:
    _ignore()
    raise Terminated


def _ignore() -> None:
    for number in ASKED_TO_END:
        signal.signal(number, signal.SIG_IGN)


def _finished(out: Path, job: Mapping[str, Any]) -> bool:
    """Whether the results of this very cell are there, and all that is kept beside them."""
    return all(file.is_file() for file in (out, *beside(out, job["keep"]))) and read_metadata(out)["key"] == job["key"]


def _of_memory(error: Exception) -> bool:
    """Whether memory, the processor's or the GPU's, was lacking; torch says so in several ways."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in OF_MEMORY)


def main(argv: list[str] | None = None) -> int:
    """The process of one job of the workflow; exit code 2 and one sentence for a user's mistake."""
    parser = argparse.ArgumentParser(prog="fedgrid.jobs.cell", description="Train one cell.")
    parser.add_argument("job", help="JSON: key, spec, files, code")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--status", type=Path, required=True)
    parser.add_argument("--checkpoint-every", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--executor", default="auto")
    parser.add_argument("--client-chunk", default="auto")
    parser.add_argument("--gpu-share", type=int, default=1)
    arguments = parser.parse_args(argv)
    compute = Compute(**{field.name: getattr(arguments, field.name) for field in fields(Compute)})
    job = json.loads(arguments.job)
    rounds = job["spec"]["training"]["rounds"]
    status, report = Status(arguments.status, rounds), Report("", rounds, sys.stdout)

    def tell(progress: Progress, remark: str) -> None:
        report.tell(progress, remark)
        status.running(progress)

    saving = Saving(arguments.checkpoint, job["key"], arguments.checkpoint_every)
    heed_sigterm()
    try:
        # a process that outlived an earlier run may still be at work on this very cell
        with turn(arguments.status.with_name(".at-work"), int(job["key"], 16) >> 2):
            if _finished(arguments.out, job):
                saving.file.unlink(missing_ok=True)
                status.done()
                say("finished meanwhile, by a process of an earlier run", sys.stdout)
                return 0
            status.running()
            outcome = run(job, arguments.out, saving, compute, tell)
    except (UserError, OSError) as error:
        status.failed(sentence(error))
        return complain(error)
    except (Terminated, KeyboardInterrupt):
        status.interrupted()
        return TERMINATED
    except Exception as error:
        status.failed(f"{'out of memory: ' if _of_memory(error) else ''}{type(error).__name__}: {error}")
        raise
    status.done()
    say(f"{outcome.status} {outcome.reason}".strip(), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
