"""Every kind of heterogeneity of the package passes the suite that `fedgrid check` runs; a published one has a path."""

from fedgrid.loading import load, names
from fedgrid.suite.partition import *  # noqa: F403

DRAWN = [name for name in names("partition") if not load("partition", name).from_file]


def pytest_generate_tests(metafunc):
    metafunc.parametrize("partition", [load("partition", name)() for name in DRAWN], ids=DRAWN)
