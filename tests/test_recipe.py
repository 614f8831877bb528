"""The conda recipe says what pyproject.toml says; no package is built here."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import fedgrid

ROOT = Path(__file__).parents[1]
RECIPE = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text(encoding="utf-8"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
CONDA_NAMES = {"matplotlib": "matplotlib-base", "snakemake": "snakemake-minimal", "torch": "pytorch"}


def conda_requirement(requirement):
    """A requirement of pyproject.toml in conda's form: its name there, a space, the versions."""
    name, versions = re.fullmatch(r"([\w.-]+)(.*)", requirement).groups()
    return f"{CONDA_NAMES.get(name, name)} {versions}".strip()


def test_it_requires_what_the_package_requires():
    python, *others = RECIPE["requirements"]["run"]
    assert (python, RECIPE["context"]["python_min"]) == ("python >=${{ python_min }}", PROJECT["requires-python"][2:])
    assert others == [conda_requirement(one) for one in PROJECT["dependencies"]]
    build = [conda_requirement(one) for one in PYPROJECT["build-system"]["requires"]]
    assert RECIPE["requirements"]["host"] == ["python ${{ python_min }}.*", *build, "pip"]


def test_it_describes_the_package_of_this_version():
    assert RECIPE["context"]["version"] == fedgrid.__version__ and RECIPE["package"]["name"] == PROJECT["name"]
    (command,) = PROJECT["scripts"].items()
    assert RECIPE["build"]["python"]["entry_points"] == [" = ".join(command)]
    about = RECIPE["about"]
    assert (about["summary"], about["license"]) == (PROJECT["description"], PROJECT["license"])
    assert [about["license_file"]] == PROJECT["license-files"] and (ROOT / about["license_file"]).is_file()
    assert (ROOT / "recipe" / RECIPE["source"]["path"]).resolve() == ROOT


def test_rattler_build_can_render_it():
    rattler_build = pytest.importorskip("rattler_build")
    recipe = rattler_build.Stage0Recipe.from_file(ROOT / "recipe/recipe.yaml")
    (rendered,) = recipe.render(rattler_build.VariantConfig({"python_min": ["3.11"]}))
    assert "fedgrid" in str(rendered.recipe.package)
