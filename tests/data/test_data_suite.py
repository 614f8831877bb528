"""Every data set of the package that needs no files passes the suite that `fedgrid check` runs."""

from fedgrid.loading import load, names
from fedgrid.suite.data import *  # noqa: F403

AVAILABLE = [name for name in names("data") if load("data", name)().is_available(None)]


def pytest_generate_tests(metafunc):
    if "data" in metafunc.fixturenames:
        metafunc.parametrize("data", [load("data", name)() for name in AVAILABLE], ids=AVAILABLE)


def test_some_need_no_files():
    assert {"digits", "synthetic", "attributes"} <= {*AVAILABLE}
