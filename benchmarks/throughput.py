"""Measures fedgrid against a plain PyTorch loop, in one run: ``python -m benchmarks.throughput`` or ``make bench``.

Every variant is a process of its own that stays warm and runs a round when it is told to. The variants take turns, so
that a slow minute of a shared machine meets all of them; what is compared was measured minutes apart, not hours. The
results go to ``benchmarks/results/<hardware>.md`` and ``.csv``.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import hardware
from benchmarks.processes import Worker
from benchmarks.report import write

METHODS = ("fedavg", "fedcosr")
CPU_VARIANTS = [
    {"kind": "plain", "threads": 1},
    {"kind": "plain", "threads": 2},
    {"kind": "loop", "threads": 1},
    {"kind": "loop", "threads": 2},
    {"kind": "loop", "threads": 1, "dtype": "bfloat16-mixed"},
    {"kind": "stacked", "threads": 1},
    {"kind": "stacked", "threads": 2},
]
GPU_VARIANTS = [
    {"kind": "plain"},
    {"kind": "loop"},
    {"kind": "stacked"},
    {"kind": "stacked", "tf32": True},
    {"kind": "stacked", "dtype": "bfloat16-mixed"},
]
WIDTHS, CHANNELS = (64, 128, 256, 512), (2, 4, 8)
MLPS = [{"model": "mlp", "side": 8, "model_settings": {"hidden": k, "features": k}} for k in WIDTHS]
CNNS = [{"model": "cnn", "side": 28, "model_settings": {"channels": k, "features": 64}} for k in CHANNELS]
SMALL = [model | {"channels": 1} for model in MLPS + CNNS]
"""Models whose steps are small: where does a stack of clients pay on a processor?"""


def measured(section: str, jobs: Iterable[dict[str, Any]], repeats: int, together: bool = True) -> list[dict[str, Any]]:
    """`repeats` rounds of every job, which take turns, or (not `together`) one job after the other."""
    rows = []
    jobs = list(jobs)
    for group in [jobs] if together else [[job] for job in jobs]:
        workers = [Worker(**job) for job in group]
        for repeat in range(repeats):
            for worker in workers:
                rows.append({"section": section, "repeat": repeat} | worker.job | worker.round())
                print(".", end="", file=sys.stderr, flush=True)
        for worker in workers:
            worker.close()
    return rows


def side_by_side(images: int, repeats: int) -> list[dict[str, Any]]:
    """In every repeat: a cell alone, the same cell in two processes at once, the plain baseline with two threads."""
    job = {"section": "side by side", "method": "fedavg", "images": images}
    cells, plain = (
        [Worker(kind="loop", images=images) for _ in range(2)],
        Worker(kind="plain", threads=2, images=images),
    )
    rows = []
    for repeat in range(repeats):
        alone, usual = cells[0].round(), plain.round()
        for cell in cells:
            cell.ask()
        measurements = [("alone", alone), ("plain", usual), *(("beside", cell.answer()) for cell in cells)]
        rows += [job | {"repeat": repeat, "how": how} | facts for how, facts in measurements]
    for worker in [*cells, plain]:
        worker.close()
    return rows


def run(
    device: str, images: int, whole: int, repeats: int, clients: list[int], per_client: int
) -> list[dict[str, Any]]:
    """All measurements on one device."""
    variants = CPU_VARIANTS if device == "cpu" else GPU_VARIANTS
    fast = "loop" if device == "cpu" else "stacked"
    peaks = [{"kind": "peak", "threads": n} for n in ((1, 2) if device == "cpu" else (1,))]
    jobs = [{"device": device, "images": images} | variant for variant in variants]
    rows = []
    for method in METHODS:
        group = [{"method": method} | job for job in jobs] + [{"device": device, "method": method} | p for p in peaks]
        rows += measured("throughput", group, repeats)
    if device == "cpu":
        rows += measured("whole", [{"kind": "loop", "images": whole}, {"kind": "peak"}], repeats)
        rows += side_by_side(images, repeats)
        small = [{"clients": n, "images": 128 * n, "equal": True} | model for n in (8, 20) for model in SMALL]
        rows += measured("small", [job | {"kind": kind} for job in small for kind in ("loop", "stacked")], repeats)
    scale = [{"clients": n, "images": per_client * n, "equal": True} for n in clients]
    scale = [{"kind": fast, "method": m, "device": device} | job for m in METHODS for job in scale]
    return rows + measured("scale", scale, min(repeats, 3), together=False)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.throughput", description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=8000, help="of all clients, three quarters of them for training")
    parser.add_argument("--whole", type=int, default=50_000, help="the same, measured for the loop alone")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 20, 50, 100, 200, 500])
    parser.add_argument("--per-client", type=int, default=64, help="images of a client in the measurement of scale")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args(argv)
    devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
    for device in devices:
        sizes = (arguments.images, arguments.whole, arguments.repeats, arguments.clients, arguments.per_client)
        rows = run(device, *sizes)
        print(f"\n{write(rows, device, arguments.out / hardware(device))}")
    if "cuda" not in devices:
        print("no GPU: its part was left out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
