"""Runs the suite on one component by pytest, undisturbed by a configuration, plugins or options of the user's own."""

import inspect
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from fedgrid.suite.method_source import file_of
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
ENDS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
CLEAN = {"PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run(kind: str, component: Any, full: bool) -> Reporter:
    """Runs all checks of a kind, or the quick ones, and prints a line for each; how they ended.

    `component` is what its tests take: the reference of a method, or a model, a partition or a data set with settings.
    Raises RuntimeError if the checks themselves cannot be run.
    """
    parameter, modules = SUITES[kind]
    file = file_of(component) if kind == "methods" else Path(inspect.getfile(type(component)))
    reporter, start = Reporter(parameter, component, file, full, sys.stdout), time.monotonic()
    torch.set_num_threads(1)  # what is checked is small
    files = [str(FOLDER / f"{module}.py") for module in modules]
    with mock.patch.dict(os.environ, CLEAN):
        code = pytest.main([*OPTIONS, f"--rootdir={FOLDER}", *files], plugins=[reporter])
    if code not in ENDS and not reporter.interrupted:
        raise RuntimeError(f"the checks could not be run: pytest ended with {pytest.ExitCode(code).name}")
    reporter.tell_repeated()
    reporter.seconds = time.monotonic() - start
    return reporter
