"""fedgrid: a cached, reproducible benchmark pipeline for personalised federated learning."""

import importlib
from typing import Any

__version__ = "1.0.0"

EXPORTED = {
    "import_partition": "partitions",
    "load_model": "models",
    "make_partition": "partitions",
    "read_partition": "partitions",
    "results": "results",
    "study": "studies",
    "train": "training",
}
"""What users call, and the module of `fedgrid.api` that has it; imported when it is first used, for they need torch or
pandas. `__init__.pyi` says the same to type checkers."""


def __getattr__(name: str) -> Any:
    if name in EXPORTED:  # by its name, or every module would import it
        return getattr(importlib.import_module(f"fedgrid.api.{EXPORTED[name]}"), name)
    raise AttributeError(f"module 'fedgrid' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *EXPORTED])
