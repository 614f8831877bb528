"""NVIDIA's Multi-Process Service, under which kernels of several processes run side by side on a GPU."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.processes import Failed
from fedgrid.jobs.gpus import MPS, MPS_PIPES

PATIENCE = 20
"Seconds in which its control has to answer."


@contextmanager
def multi_process_service() -> Iterator[None]:
    """The service for processes that start as long as ``with`` lasts, in a folder of its own.

    Failed where it is not installed or does not start.
    """
    control = shutil.which(MPS)
    if not control:
        raise Failed(f"there is no {MPS} here")
    with TemporaryDirectory(prefix="mps-") as folder:  # a short path, since it is that of a socket
        variables = {MPS_PIPES: str(Path(folder, "pipes")), "CUDA_MPS_LOG_DIRECTORY": str(Path(folder, "logs"))}
        before = {name: os.environ.get(name) for name in variables}
        for name, place in variables.items():
            Path(place).mkdir()
            os.environ[name] = place
        try:
            _told(control, "-d")
            try:
                yield
            finally:
                _told(control, said="quit\n")
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                os.environ.update({name: value} if value is not None else {})


def _told(control: str, *arguments: str, said: str = "") -> None:
    try:
        subprocess.run([control, *arguments], input=said, text=True, check=True, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(f"{Path(control).name}: {error}") from error
