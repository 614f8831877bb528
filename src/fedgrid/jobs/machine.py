"""A description of this machine, as results record it."""

import platform
from pathlib import Path

SIMD = ("sse4", "avx", "fma", "amx", "asimd", "sve")
"How the names of instruction sets begin that numbers are computed with."


def processor() -> str:
    """The name of the processor's model."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def instructions() -> str:
    """The SIMD instruction sets of the processor, by which libraries choose how they compute; empty: not known."""
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
