"""Runs the suite on one component by pytest, undisturbed by a configuration, plugins or options of the user's own."""

import inspect
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from fedgrid.suite.reporting import Reporter

FOLDER = Path(__file__).parent
SUITES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "methods": ("method_name", ("method_source", "method", "method_costs", "method_executors", "method_key")),
    "models": ("model", ("model",)),
    "partition": ("partition", ("partition",)),
    "data": ("data", ("data",)),
}
"By kind, the parameter of the tests, and the modules that hold them."
OPTIONS = ("-c", os.devnull, "--noconftest", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:warnings")
CLEAN = {"PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@dataclass(frozen=True)
class Outcome:
    """How a component's checks ended."""

    passed: int
    failed: int
    left: int
    "Checks that only ``--full`` runs."
    seconds: float
    interrupted: bool


def run(kind: str, reference: str, component: Any, full: bool) -> Outcome:
    """Runs all checks of a kind, or the quick ones, and prints a line for each.

    `component` is what its tests take: the reference of a method, or a model, a partition or a data set with settings.
    """
    parameter, modules = SUITES[kind]
    cls = type(component)
    file = Path(reference if reference.endswith(".py") or kind == "methods" else inspect.getfile(cls))
    reporter, start = Reporter(parameter, component, file, full, sys.stdout), time.monotonic()
    torch.set_num_threads(1)  # what is checked is small
    files = [str(FOLDER / f"{module}.py") for module in modules]
    with environment(CLEAN):
        code = pytest.main([*OPTIONS, f"--rootdir={FOLDER}", *files], plugins=[reporter])
    reporter.tell_repeated()
    seconds = time.monotonic() - start
    counts = reporter.counts
    return Outcome(counts["passed"], counts["failed"], reporter.left, seconds, code == pytest.ExitCode.INTERRUPTED)


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Environment variables within; the former ones are put back."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
