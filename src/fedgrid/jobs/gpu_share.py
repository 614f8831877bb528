"""How many cells compute on a GPU at a time, and whether their kernels run side by side."""

import os
from pathlib import Path

from fedgrid.jobs.gpus import cards, nvidia_smi
from fedgrid.jobs.machine import cores
from fedgrid.settings import Compute

MIB_OF_A_CELL = 8192
"""Memory for a cell with `auto`: with the two-block CNN and 20 to 200 clients a cell held 1.0 to 4.2 GiB on an H200
(benchmarks/results/nvidia-h200-bench-gpu.md). A cell that has less room trains fewer clients at a time."""
MOST = 8
"Cells on a GPU with `auto`; four had 3.2 times the rounds of one there."
PIPES = "CUDA_MPS_PIPE_DIRECTORY"


def cells_on_a_gpu(compute: Compute) -> int:
    """The setting `gpu_share`; `auto` is what the memory of this machine's GPUs and its cores carry, at least 1."""
    if compute.gpu_share != "auto":
        return int(compute.gpu_share)
    beside = cores() // (compute.threads * max(1, len(cards())))
    return max(1, min(MOST, beside, memory() // MIB_OF_A_CELL))


def memory() -> int:
    """MiB of the smallest GPU; 0 where nvidia-smi does not tell, as without a GPU."""
    lines = nvidia_smi("--query-gpu=memory.total", "--format=csv,noheader,nounits").split()
    return min(map(int, lines), default=0) if all(map(str.isdigit, lines)) else 0


def side_by_side() -> bool:
    """Whether NVIDIA's MPS runs, which lets kernels of several processes compute at a time; else they take turns."""
    control = Path(os.environ.get(PIPES, "/tmp/nvidia-mps"), "control")
    try:
        os.close(os.open(control, os.O_WRONLY | os.O_NONBLOCK))  # fails unless a daemon reads
    except OSError:
        return False
    return True
