"""``fedgrid check``: one component, of the package or in a file of your own, goes through the built-in test suite."""

import argparse
import importlib.util
from shlex import quote
from typing import TYPE_CHECKING, Any

from fedgrid.cli.parsing import command, flag, option
from fedgrid.cli.template import NEW
from fedgrid.components import describe, parse_setting, resolve
from fedgrid.errors import UserError
from fedgrid.loading import KINDS

if TYPE_CHECKING:
    from fedgrid.suite.reporting import Reporter


@command(
    option("component COMPONENT", "path/to/mine.py, or a name in the package"),
    flag("--full", "run the checks that take longer, too"),
    option(
        "--set NAME=VALUE",
        "a setting of the model, partition or data set; methods are checked with their defaults",
        action="append",
        default=[],
    ),
)
def check(arguments: argparse.Namespace) -> int:
    """Test a method, model, partition or data set: a file of your own, or a name.

    fedgrid check mine.py
    fedgrid check mine.py --full
    fedgrid check dirichlet --set beta=0.5
    """
    if importlib.util.find_spec("pytest") is None:
        raise UserError("fedgrid check needs pytest; install it with: pip install 'fedgrid[check]'")
    from fedgrid.suite.running import run  # torch takes seconds to import

    reference = arguments.component
    kind, component = _component(reference, arguments.set)
    outcome = run(kind, component, arguments.full)
    if outcome.interrupted:
        return 130
    print(_conclusion(reference, kind, outcome))
    return 1 if outcome.failed else 0


def _component(reference: str, settings: list[str]) -> tuple[str, Any]:
    """Kind and instance of what is checked; a method's tests load it themselves, by its name or file."""
    from fedgrid.suite.subjects import subject

    kind, cls = subject(reference)
    about = describe(cls)  # raises UserError where a function is missing, or a setting's type is none of a study's
    if kind == "methods":
        if settings:
            raise UserError("--set: methods are checked with their defaults and with the settings of their identities")
        return kind, reference
    component: Any = cls(**resolve(about, dict(parse_setting(about, text, "--set") for text in settings), "--set"))
    if kind == "data":
        _check_available(component)
    return kind, component


def _check_available(data: Any) -> None:
    """Raises UserError where the images of a data set are not on this machine."""
    from fedgrid.suite.data import root

    if not data.is_available(root()):
        data.load(root(), None)


def _conclusion(reference: str, kind: str, outcome: "Reporter") -> str:
    """How many checks passed, in how many seconds, and what to do next."""
    failed = f", {outcome.failed} failed" if outcome.failed else ""
    counts = f"{outcome.passed} passed{failed} in {outcome.seconds:.1f} s"
    again = f"fedgrid check {quote(reference)}"
    if outcome.failed:
        return f"{counts}; fix the first failure and run again: {again}"
    if outcome.left:
        return f"{counts}; before you publish, run the other {outcome.left} checks: {again} --full"
    trial = NEW[kind].trial.format(file=quote(reference))
    return f"{counts}; this {KINDS[kind]} passes the suite; train it: fedgrid run {trial}"
