"""Descriptions of components without importing them twice.

Describing a method means importing torch, which takes seconds; a workflow reads its study at every start. So
descriptions are kept as JSON in the user's cache, under the fingerprint of the code that they describe.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedgrid.components import describe
from fedgrid.errors import UserError, complain
from fedgrid.files import write_text
from fedgrid.grid.identity import fingerprint
from fedgrid.loading import load, locate


def cache() -> Path:
    """The folder of descriptions: not in the store, where a dry run must leave no trace."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedgrid" / "descriptions"


def description(kind: str, reference: str) -> dict[str, Any]:
    """`components.describe` of a component, with its name, `reference`, module and (outside the package) file."""
    name, module, file = locate(kind, reference)
    try:
        code = fingerprint(module, file, also=["fedgrid.components"])
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise UserError(f"method '{reference}' cannot be read: {error.msg} ({where})") from error
    except UnicodeDecodeError as error:
        raise UserError(f"method '{reference}' cannot be read: it is not UTF-8 ({error.reason})") from error
    kept = cache() / kind / f"{name}-{code}.json"
    if kept.is_file():
        found = json.loads(kept.read_text(encoding="utf-8"))
    else:
        found = _described_apart(kind, reference) if file else describe(load(kind, reference))
        with suppress(UserError):  # it only saves time, and others' results may be read where nothing can be written
            write_text(kept, json.dumps(found, ensure_ascii=False, indent=1))
    return found | {"name": name, "reference": reference, "module": module, "file": str(file) if file else None}


def _described_apart(kind: str, reference: str) -> dict[str, Any]:
    """Describes a file of the user's in a process of its own: two of them may each have their own ``helper.py``."""
    command = [sys.executable, "-m", "fedgrid.grid.catalog", kind, reference]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise UserError(run.stderr.strip().splitlines()[-1].removeprefix("fedgrid: "))
    return json.loads(run.stdout.splitlines()[-1])


if __name__ == "__main__":
    try:
        print(json.dumps(describe(load(*sys.argv[1:]))))
    except UserError as error:
        sys.exit(complain(error))
