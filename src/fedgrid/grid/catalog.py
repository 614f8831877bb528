"""Descriptions of components without importing them twice.

Describing a method means importing torch, which takes seconds; a workflow reads its study at every start. So
descriptions are kept as JSON beside the results, under the fingerprint of the code they describe.
"""

import json
from pathlib import Path
from typing import Any

from fedgrid.components import describe
from fedgrid.errors import UserError
from fedgrid.files import write_text
from fedgrid.grid.identity import fingerprint
from fedgrid.loading import load, locate


def description(kind: str, reference: str, cache: Path) -> dict[str, Any]:
    """`components.describe` of a component, with its name, code fingerprint and (outside the package) file."""
    name, module, file = locate(kind, reference)
    try:
        code = fingerprint(module, file)
    except SyntaxError as error:
        raise UserError(f"method '{reference}' cannot be read: {error.msg} (line {error.lineno})") from error
    kept = cache / kind / f"{name}-{code}.json"
    if kept.is_file():
        found = json.loads(kept.read_text(encoding="utf-8"))
    else:
        found = describe(load(kind, reference))
        write_text(kept, json.dumps(found, ensure_ascii=False, indent=1))
    return found | {"name": name, "module": module, "file": str(file) if file else None}
