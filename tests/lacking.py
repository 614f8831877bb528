"""A machine that has what training needs, and none of the packages of the workflow."""

import os
from pathlib import Path

from benchmarks.processes import ROOT

MODULES = ("snakemake", "pydantic", "jsonschema", "jinja2", "cvxpy")


def environment(folder: Path) -> dict[str, str]:
    """Of processes with this checkout's fedgrid, for which `MODULES` are not installed; writes a file to `folder`."""
    hide = f"import sys\nfor name in {MODULES}:\n    sys.modules[name] = None\n"
    (folder / "sitecustomize.py").write_text(hide, encoding="utf-8")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")])}
