"""Every model of the package passes the suite that `fedgrid check` runs, the largest ones in `make test-all` alone."""

from importlib.util import find_spec

import pytest

from fedgrid.loading import load, names
from fedgrid.suite.model import *  # noqa: F403

LARGE = ("mobilenetv2", "resnet18")
SETTINGS = {"timm": {"backbone": "test_resnet", "weights": "random", "features": 16}}
"Of models that by default need more than fedgrid and images of any width."


def pytest_generate_tests(metafunc):
    marks = {name: [pytest.mark.full] * (name in LARGE) for name in names("models")}
    if find_spec("timm") is None:
        marks["timm"] = [pytest.mark.skip("timm is not installed: pip install 'fedgrid[features]'")]
    models = [
        pytest.param(load("models", name)(**SETTINGS.get(name, {})), id=name, marks=marks[name]) for name in marks
    ]
    metafunc.parametrize("model", models)
