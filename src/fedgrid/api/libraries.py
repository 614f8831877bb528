"""Libraries that only some commands need: imported when they are used, each with the extra that installs it."""

import importlib
from typing import Any

from fedgrid.errors import UserError


def import_optional(module: str, extra: str, purpose: str) -> Any:
    """The module of a library; UserError, which begins with the `purpose`, where it is not installed.

    Its type is Any, so that types are checked alike with and without it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{purpose} needs {error.name or module}: pip install 'fedgrid[{extra}]'") from error
