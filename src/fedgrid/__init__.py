"""fedgrid: a cached, reproducible benchmark pipeline for personalised federated learning."""

import importlib
from typing import Any

__version__ = "0.2.0"

EXPORTED = ("load_model",)
"What users import from here; it needs torch, so that it is imported when it is first used."


def __getattr__(name: str) -> Any:
    if name in EXPORTED:  # by its name, or every module would import it
        return getattr(importlib.import_module("fedgrid.api"), name)
    raise AttributeError(f"module 'fedgrid' has no attribute '{name}'")
