"""A checkout whose processes, Snakemake's included, are forked from one that has imported their libraries.

For tests of what is run, not of how processes start: each is still one of its own, with the code of its checkout, yet
spends no seconds on imports.
"""

import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from checkout import Checkout

from fedgrid.jobs import warm
from fedgrid.jobs.warm import server

LIBRARIES = (
    *("snakemake.cli", "jsonschema", "jinja2", "pandas", "pyarrow.parquet", "pyarrow.dataset", "sympy", "torch"),
    *("matplotlib.figure", "matplotlib.backends.backend_svg", "matplotlib.backends.backend_pdf"),
    *("scipy.stats", "sklearn.datasets", "PIL.Image"),
)


class Forked(Checkout):
    """Needs a `Forker` that listens."""

    def __init__(self, *given: Path | str):
        super().__init__(*given)
        self.edit("src/fedgrid/run/invocation.py", "self.worker.start()", "pass")  # the forker is there already

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"WARM": "1"}

    def command(self, *arguments: str) -> list[str]:
        _, _, snakemake, *options = super().command(*arguments)
        return [sys.executable, "-S", "-E", str(warm.CLIENT), f"{snakemake}.cli", *options]


class Forker(warm.Worker):
    """A warm worker for every module, with whatever code of fedgrid stands in a job's PYTHONPATH."""

    def start(self) -> None:
        os.environ[warm.VARIABLE] = os.path.join(tempfile.mkdtemp(prefix="fedgrid-"), "socket")
        self.process = subprocess.Popen(self.command(), env=os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"})

    def command(self) -> list[str]:
        return [sys.executable, __file__, os.environ[warm.VARIABLE], str(os.getpid())]


def _run(module: str, *arguments: str, run=server._run) -> int:
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    for name in [name for name in sys.modules if name.partition(".")[0] == "fedgrid"]:
        del sys.modules[name]
    return run(module, *arguments)


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    server._run = _run
    server.main(sys.argv[1], int(sys.argv[2]))
