"""What is measured on: its name, and the versions of what computes."""

import os
import platform
import re
import subprocess
from datetime import UTC, datetime

import torch

from fedgrid.grid.plan.commit import commit
from fedgrid.jobs.gpus import side_by_side
from fedgrid.jobs.machine import processor

PATIENCE = 10
"Seconds that nvidia-smi may take."


def hardware(device: str) -> str:
    """The machine's name in files: its processor and cores, or its GPU."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"{processor()} {os.cpu_count()} cores"
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(.*?\)", "", name.lower())).strip("-")


def facts(device: str) -> dict[str, str]:
    """What a page says of the machine, by name."""
    revision = commit()
    code = revision.id[:12] + (", edited" if not revision.clean else "") if revision else "unknown"
    usual = {
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "torch": torch.__version__,
        "Python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": code,
    }
    if device != "cuda":
        return {"card": "no GPU"} | usual
    card = torch.cuda.get_device_properties(0)
    ours = {"card": f"{card.name}, {card.total_memory / 2**30:.0f} GiB", "CUDA": str(torch.version.cuda)}
    kernels = "of several processes side by side, by MPS" if side_by_side() else "of several processes in turns"
    return ours | {"driver": driver(), "kernels": kernels} | usual


def driver() -> str:
    """The version of the GPU's driver, as nvidia-smi says it; ``unknown`` without it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return (said.splitlines() or ["unknown"])[0].strip()
