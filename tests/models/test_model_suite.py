"""Every model of the package passes the suite that `fedgrid check` runs."""

from fedgrid.loading import load, names
from fedgrid.suite.model import *  # noqa: F403


def pytest_generate_tests(metafunc):
    metafunc.parametrize("model", [load("models", name)() for name in names("models")], ids=names("models"))
