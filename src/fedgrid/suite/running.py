"""Runs the suite on one component by pytest, undisturbed by a configuration, plugins or options of the user's own."""

import inspect
import linecache
import os
import sys
import textwrap
import time
import traceback
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

import pytest
import torch

from fedgrid.engine.local.executor import Diverged
from fedgrid.errors import UserError, say
from fedgrid.quantities import without_numbers
from fedgrid.suite.expectations import NotFinite, Unmet, check_of, describe_divergence
from fedgrid.suite.method_source import file_of

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
WIDTH, INDENT = 116, " " * 8
FLAW_OF_SUITE = "this is a flaw of the check, not of your file: please report it"


def run(kind: str, component: Any, full: bool) -> "Reporter":
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


class Reporter:
    """Runs the checks on one `component`, given to the tests as their `parameter`, and says how each of them ended."""

    def __init__(self, parameter: str, component: Any, file: Path, full: bool, stream: TextIO):
        self.parameter, self.component, self.file, self.full, self.stream = parameter, component, file, full, stream
        self.passed = self.failed = self.left = 0
        "Numbers of checks; `left` are those that only --full runs."
        self.seconds, self.interrupted = 0.0, False
        self.causes: dict[str | type[NotFinite], list[str]] = {}
        """The causes of failures so far, each with the titles of the checks that failed for it. Numbers that are not
        finite are one cause, whichever they are, and so are sentences that differ in numbers alone."""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Makes the suite's mark known."""
        config.addinivalue_line("markers", "representatives: takes long and seldom fails alone; left to --full")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Gives every test the component."""
        metafunc.parametrize(self.parameter, [self.component], ids=["it"])

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leaves out what only ``--full`` runs."""
        if not self.full:
            marked = "representatives"
            chosen = [it for it in items if it.get_closest_marker(marked) is None or check_of(_function(it)).always]
            self.left = len(items) - len(chosen)
            items[:] = chosen

    def pytest_keyboard_interrupt(self) -> None:
        """Notes that the user ended the run."""
        self.interrupted = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Shows why a module of the suite cannot be read, which is a flaw of the suite's own."""
        if report.failed:
            say(str(report.longrepr), self.stream)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Prints the line of a check."""
        report = yield
        if report.when == "call" or report.failed:
            self._tell(item, call.excinfo.value if call.excinfo else None)
        return report

    def _tell(self, item: pytest.Item, error: BaseException | None) -> None:
        callspec: Any = getattr(item, "callspec", None)
        case = callspec.id.removeprefix("it").removeprefix("-") if callspec else ""
        title = check_of(_function(item)).title + (f": {case}" if case else "")
        if error is None:
            self.passed += 1
            say(f"passed  {title}", self.stream)
            return
        self.failed += 1
        cause = cause_of(error, self.file)
        kind = NotFinite if isinstance(error, NotFinite | Diverged) else without_numbers(cause)
        titles = self.causes.setdefault(kind, [])
        titles.append(title)
        if len(titles) == 1:
            say(f"FAILED  {title}", self.stream)
            for line in (cause, f"read {check_of(_function(item)).see}"):
                say(textwrap.fill(line, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT), self.stream)

    def tell_repeated(self) -> None:
        """Prints how many further checks failed for each reason."""
        for first, *others in self.causes.values():
            if others:
                checks = "1 further check" if len(others) == 1 else f"{len(others)} further checks"
                say(f"FAILED  {checks}, for the same reason as “{first}”", self.stream)


def _function(item: pytest.Item) -> Any:
    function: Any = getattr(item, "function")  # noqa: B009  # of items that are functions, as all of the suite's are
    return function


def cause_of(error: BaseException, file: Path) -> str:
    """One sentence on an error: that of an expectation, or what was raised and at which line of the checked `file`."""
    if isinstance(error, Unmet | UserError):
        return " ".join(str(error).split())
    if isinstance(error, Diverged):
        return describe_divergence(str(error))
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).resolve() == file.resolve()]
    last = (own or frames)[-1]
    code = linecache.getline(last.filename, last.lineno or 0).strip()
    what = " ".join(f"{type(error).__name__}: {error}".split()) + notes
    where = f"raised in {last.filename}, line {last.lineno} ({last.name}): `{code}`"
    flaw_of_suite = not own and Path(last.filename).parent == Path(__file__).parent
    return f"{what}; {where}" + f"; {FLAW_OF_SUITE}" * flaw_of_suite
