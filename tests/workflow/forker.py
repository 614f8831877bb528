"""The process that `forked.Forker` starts: a warm worker for every module, with the code in a job's PYTHONPATH."""

import importlib
import os
import signal
import sys

from fedgrid.jobs.warm import server
from fedgrid.jobs.warm.client import SIGNALS

LIBRARIES = (
    *("snakemake.cli", "jsonschema", "jinja2", "pandas", "pyarrow.parquet", "pyarrow.dataset", "sympy", "torch"),
    *("matplotlib.figure", "matplotlib.backends.backend_svg", "matplotlib.backends.backend_pdf"),
    *("scipy.stats", "sklearn.datasets", "PIL.Image"),
)


def _run(module: str, *arguments: str, run=server._run) -> int:
    if module != "fedgrid.jobs.cell":  # which unblocks them when it can answer them
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    return run(module, *arguments)


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    for library in LIBRARIES:
        importlib.import_module(library)
    server._run = _run
    server.main(sys.argv[1], int(sys.argv[2]))
