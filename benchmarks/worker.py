"""One process that is measured: for every line that it reads it runs one round and answers with one line of JSON.

``python -m benchmarks.worker JOB`` with JOB = {kind, method, clients, images, …}; see `DEFAULTS`. The kinds are the
executors of fedgrid, `plain` (benchmarks/plain.py) and `peak`, the fastest float32 matrix product of this machine.
"""

import hashlib
import io
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from benchmarks import plain
from benchmarks.processes import first_line
from fedgrid.data.common.store import Labels
from fedgrid.engine.federation.simulation import Simulation, dtype_of
from fedgrid.engine.local.captured import Captured
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.grouping import batches_per_call
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.lowered import Lowered
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.engine.state.saving import Saving
from fedgrid.jobs.machine import MAXRSS_UNIT
from fedgrid.loading import load
from fedgrid.partition.dirichlet import Dirichlet
from fedgrid.settings import Training
from fedgrid.tree import leaves

DEFAULTS = {
    "kind": "loop",
    "method": "fedavg",
    "model": "cnn",
    "model_settings": {},
    "side": 32,
    "channels": 3,
    "clients": 20,
    "images": 6000,
    "equal": False,
    "learning": None,
    "batch_size": 16,
    "threads": 1,
    "device": "cpu",
    "dtype": "float32",
    "tf32": False,
    "drawn": False,
    "participation": 1.0,
    "eval_sample": None,
    "checkpoint": None,
    "checkpoint_every": 60.0,
}
"""A job, where it does not say otherwise: 6,000 images of all clients, training and test, by Dirichlet 0.1 or equal.

With `learning` only so many clients of equal ones have training images. With `drawn` images are random, also where
CIFAR-10 is at hand. With `eval_sample` so many clients' models are scored in a round, else all. A job goes on from its
`checkpoint`, a path, and writes it.
"""
EXECUTORS = {"loop": Loop, "stacked": Stacked, "captured": Captured, "lowered": Lowered}
CLASSES = 10
SIZES = {"cpu": (512, 1024, 2048), "cuda": (4096, 8192)}
"Sides of the matrices whose product is timed."


def images(job: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Pixels uint8 [n, side, side, channels] and labels [n]: CIFAR-10's where it is at hand, else random ones."""
    shape = (job["images"], job["side"], job["side"], job["channels"])
    file = Path(os.environ.get("FEDGRID_DATA", ".")) / "cifar10" / "train.parquet"
    if job["drawn"] or shape[1:] != (32, 32, 3) or not file.is_file() or job["images"] > 50_000:
        random = np.random.default_rng(0)
        return random.integers(0, 256, shape, np.uint8), random.integers(0, CLASSES, shape[0])
    from PIL import Image

    table = pq.read_table(file).slice(0, job["images"])
    pixels = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in table["image"].to_pylist()]
    return np.stack(pixels), table["label"].to_numpy().astype(np.int64)


def dealt(job: dict[str, Any], labels: np.ndarray) -> tuple[list[Tensor], list[Tensor]]:
    """Indices of each client's training and test images."""
    if job["equal"]:
        parts = np.array_split(np.arange(len(labels)), job["clients"])
        learning = job["clients"] if job["learning"] is None else job["learning"]
        cuts = [round(0.75 * len(parts[0])) * (client < learning) for client in range(job["clients"])]
        pairs = [np.split(part, [cut]) for part, cut in zip(parts, cuts, strict=True)]
        return tuple([torch.from_numpy(pair[split]) for pair in pairs] for split in (0, 1))
    table = Dirichlet(clients=job["clients"], beta=0.1).split(Labels(labels, len(labels), CLASSES), 0).to_pandas()
    groups = {key: torch.tensor(rows["index"].to_list()) for key, rows in table.groupby(["client", "split"])}
    nothing = torch.zeros(0, dtype=torch.long)
    return tuple([groups.get((i, part), nothing) for i in range(job["clients"])] for part in ("train", "test"))


def prepare(job: dict[str, Any]) -> None:
    """Settings of torch, for fedgrid as in a cell."""
    torch.set_num_threads(job["threads"])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = job["tf32"]
    torch.backends.cudnn.deterministic = job["kind"] in EXECUTORS


def simulation(job: dict[str, Any], pixels: np.ndarray, labels: np.ndarray, lists: Any, rounds: int) -> Simulation:
    """A cell of fedgrid with its images on the device."""
    device = torch.device(job["device"])
    train, test = ([index.to(device) for index in part] for part in lists)
    training = Training(
        rounds=rounds,
        batch_size=job["batch_size"],
        dtype=job["dtype"],
        participation=job["participation"],
        eval_every=rounds if job["eval_sample"] else 1,
        eval_sample=job["eval_sample"],
    )
    constants = torch.full((2, 1, job["channels"], 1, 1), 128.0, dtype=dtype_of(training), device=device)
    stored = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2)
    data = ClientData(stored, torch.from_numpy(labels).to(device), train, test, CLASSES, *constants)
    network = load("models", job["model"])(**job["model_settings"]).network(pixels.shape[1:], CLASSES)
    if job["dtype"] == "bfloat16-mixed":
        network = network.in_bfloat16()
    return Simulation(data, network, training, EXECUTORS[job["kind"]](), 0, device)


def fedgrid_rounds(job: dict[str, Any], pixels: np.ndarray, labels: np.ndarray, lists: Any) -> None:
    """Rounds of fedgrid, each of which waits for its line; to ``digest`` it answers with that of the cell so far."""
    where = simulation(job, pixels, labels, lists, 1_000_000)
    together = batches_per_call(where.data.train, job["batch_size"])
    facts = {"flops": where.model.flops(pixels.shape[1:]), "together": together}
    before: dict[str, float] = {}

    def tell(progress: Progress, remark: str) -> None:
        if before and progress.rounds > 1:  # the first one warms up
            own = {name: seconds - before[name] for name, seconds in progress.seconds.items()}
            answer(own | facts | {"rounds": progress.rounds}, job)
        before.update(progress.seconds)
        while progress.rounds and wait() == "digest":
            answer({"digest": digest(progress)}, job)

    saving = Saving(Path(job["checkpoint"]), "benchmark", job["checkpoint_every"]) if job["checkpoint"] else None
    federate(load("methods", job["method"])(), where, saving, tell)


def digest(progress: Progress) -> str:
    """Of every bit of the records and of the state; a row that clients share is read once."""
    _, first, own = np.unique(progress.population.slot_of, return_index=True, return_inverse=True)
    digest = hashlib.blake2b(repr([progress.record.rows, first[own].tolist()]).encode())
    for client in sorted(first.tolist()):
        state = progress.population.gather(np.array([client]))
        for t in [*leaves(state.server), *leaves(state.clients)]:
            digest.update(t.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def plain_rounds(job: dict[str, Any], pixels: np.ndarray, labels: np.ndarray, lists: Any) -> Iterator[dict[str, float]]:
    """Rounds of the plain baseline."""
    x = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 128) / 128
    y = torch.from_numpy(labels)
    train, test = ([TensorDataset(x[index], y[index]) for index in part] for part in lists)
    return plain.rounds(job["method"], train, test, job["batch_size"], job["device"])


def peak(job: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Floating-point operations a second of a square float32 matrix product, of the side that is fastest.

    Each side is kept up for half a second: what is compared with it is no fleeting best case either.
    """
    while True:
        rates = []
        for side in SIZES[job["device"]]:
            a = torch.randn(side, side, device=job["device"])
            start, products = time.perf_counter(), 0
            while time.perf_counter() - start < 0.5:
                a @ a
                plain.synchronise(job["device"])
                products += 1
            rates.append(2 * side**3 * products / (time.perf_counter() - start))
        yield {"peak": max(rates)}


def wait() -> Any:
    """What the next line asks; ends the process with its input."""
    if not (line := sys.stdin.readline()):
        sys.exit()
    return json.loads(line)


def answer(facts: dict[str, Any], job: dict[str, Any]) -> None:
    """One line of JSON, with the peak memory so far in bytes."""
    facts = facts | {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT}
    if job["device"] == "cuda":
        facts["device_memory"] = torch.cuda.max_memory_allocated()
    print(json.dumps(facts), flush=True)


def work(job: dict[str, Any]) -> None:
    """A round for every line, until there are no more."""
    prepare(job)
    if job["kind"] == "peak":
        rounds = peak(job)
    else:
        pixels, labels = images(job)
        lists = dealt(job, labels)
        if job["kind"] != "plain":
            fedgrid_rounds(job, pixels, labels, lists)
        rounds = plain_rounds(job, pixels, labels, lists)
    next(rounds)  # warms up
    while True:
        wait()
        answer(next(rounds), job)


def main() -> None:
    try:
        work(DEFAULTS | json.loads(sys.argv[1]))
    except Exception as error:
        print(json.dumps({"error": first_line(error)}), flush=True)
        raise


if __name__ == "__main__":
    main()
