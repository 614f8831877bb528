"""A description of this machine, as results record it, and its processes."""

import os
import platform
import resource
import sys
from contextlib import suppress
from pathlib import Path

MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
SIMD = ("sse4", "avx", "fma", "amx", "asimd", "sve")
"Prefixes of the names of instruction sets that computing uses."


def processor() -> str:
    """The name of the processor's model."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def cores() -> int:
    """The cores that this process may use; a scheduler or taskset may limit them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT


def lives(pid: int) -> bool:
    """Whether a process of this machine still runs."""
    try:
        with suppress(PermissionError):  # it is running, and belongs to another user
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def instructions() -> str:
    """The SIMD instruction sets of the processor, by which libraries choose their kernels; empty if unknown."""
    names = (_cpuinfo("flags") or _cpuinfo("Features")).split()
    return " ".join(sorted(name for name in names if name.startswith(SIMD)))


def _cpuinfo(field: str) -> str:
    """The first value of a field of Linux's description of its processors; empty on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    values = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field)
    return next(values, "")
