"""What is written of the evidence: digests of code in the ledger, and in CHANGELOG.md why numbers change."""

import json
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedgrid.files import replacing
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.ledger import Code
from fedgrid.jobs.machine import instructions, processor

SECTION, KEYS = "## ", "### Keys"
"How the sections of the changelog begin, and the part of a section that says which keys change."


def evidence(commit: str, compared: str, reason: str = "") -> dict[str, Any]:
    """What stands in the ledger of a comparison with a `commit` on this machine, or of a change of numbers."""
    libraries = {"python": platform.python_version()} | {name: version(name) for name in ("torch", "numpy")}
    about: dict[str, Any] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit, "compared": compared}
    about |= {"processor": processor(), "instructions": instructions(), "libraries": libraries}
    return about | ({"reason": reason} if reason else {})


def listed(
    ledger: Mapping[str, Any], same: Mapping[str, tuple[str, Code]], new: Mapping[str, Code], proof: Mapping[str, Any]
) -> dict[str, Any]:
    """The ledger with the code of units on the `proof` of a comparison.

    `same` are units whose numbers are as before: the digest of that earlier code, and the code; `new` are units that
    have no identity yet, or new numbers, whose code becomes their identity.
    """
    units = {unit: [dict(one, code=dict(one["code"])) for one in known] for unit, known in ledger["units"].items()}
    number = len(ledger["evidence"])
    for unit, (before, code) in same.items():
        identity = next(one for one in units[unit] if before in one["code"])
        identity["code"][digest(code)] = number
    for unit, code in new.items():
        units.setdefault(unit, []).append({"identity": dict(code), "code": {digest(code): number}})
    return {"evidence": [*ledger["evidence"], proof], "units": units}


def write(file: Path, ledger: Mapping[str, Any]) -> None:
    """Writes the ledger, a line for each piece of evidence and for each unit."""
    known = ",\n".join(json.dumps(proof, ensure_ascii=False) for proof in ledger["evidence"])
    units = ",\n".join(f"{json.dumps(unit)}: {json.dumps(ledger['units'][unit])}" for unit in sorted(ledger["units"]))
    with replacing(file) as temporary:
        temporary.write_text(f'{{"evidence": [\n{known}\n],\n"units": {{\n{units}\n}}}}\n', encoding="utf-8")


def say_in_changelog(file: Path, units: Iterable[str], reason: str) -> None:
    """Says in the newest section of the changelog, under Keys, why the numbers of some units change."""
    lines = file.read_text(encoding="utf-8").splitlines()
    start, end = [number for number, line in enumerate([*lines, SECTION]) if line.startswith(SECTION)][:2]
    if KEYS not in lines[start:end]:
        lines[start + 1 : start + 1] = ["", KEYS, ""]
    first_item = lines.index(KEYS, start) + 2
    lines.insert(first_item, f"- New keys for cells with {', '.join(sorted(units))}: {reason}")
    with replacing(file) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
