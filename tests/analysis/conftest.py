"""Small synthetic studies for tests of tables, figures and pages."""

from collections.abc import Callable
from pathlib import Path

import pytest
from toys import Study, toy_study, with_variant


@pytest.fixture
def make_study(tmp_path: Path) -> Callable[..., Study]:
    """Give the maker of empty studies."""
    return lambda **study: Study(tmp_path, **study)


@pytest.fixture
def toy(tmp_path: Path) -> Study:
    """Give the toy study of `toy_study` to a test that may change it."""
    return toy_study(tmp_path)


@pytest.fixture(scope="module")
def common_toy(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Give the toy study to all tests of a module, which must leave it as it is."""
    return toy_study(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def common_ablated(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Give `ablated` to all tests of a module, which must leave it as it is."""
    return with_variant(toy_study(tmp_path_factory.mktemp("ablated")))


@pytest.fixture
def ablated(toy: Study) -> Study:
    """Give the toy study with a second variant of Ditto."""
    return with_variant(toy)
