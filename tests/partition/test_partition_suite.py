"""Every kind of heterogeneity of the package passes the suite that `fedgrid check` runs; a published one has a path."""

from fedgrid.loading import load, names
from fedgrid.suite.partition import *  # noqa: F403

DRAWN = sorted(set(names("partition")) - {"file", "imported"})


def pytest_generate_tests(metafunc):
    metafunc.parametrize("partition", [load("partition", name)() for name in DRAWN], ids=DRAWN)
