"""Every model of the package passes the suite that `fedgrid check` runs, the largest ones in `make test-all` alone."""

import pytest

from fedgrid.loading import load, names
from fedgrid.suite.model import *  # noqa: F403

LARGE = ("mobilenetv2", "resnet18")


def pytest_generate_tests(metafunc):
    marks = {name: [pytest.mark.full] * (name in LARGE) for name in names("models")}
    models = [pytest.param(load("models", name)(), id=name, marks=marks[name]) for name in marks]
    metafunc.parametrize("model", models)
