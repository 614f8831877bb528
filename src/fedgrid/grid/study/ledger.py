"""The ledger of numerics: which code of fedgrid is known to compute the same numbers, bit for bit.

A unit is a module of fedgrid that others name in a key, and all that it imports: the engine, a method, a model, a kind
of partition, a data set, the features. ``ledger.json`` has for each of them its identities, which stand in keys, and
under each identity the digests of code that was found to compute the very same numbers (``make numerics``). Code whose
digest is not listed counts as what it is: nobody vouches for it.
"""

import functools
import json
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.sources import NOT_COUNTED, Sources

FILE = Path(__file__).with_name("ledger.json")
ENGINE = "fedgrid.engine.compute"
"The module with which the computation of every cell begins."
FEATURES = "fedgrid.engine.features"
"The module that makes frozen features of images."
METHODS = "fedgrid.methods"
ROOMS = (METHODS, "fedgrid.models", "fedgrid.partition", "fedgrid.data")
"Each of their modules is a unit, for files of the user's own may import it by itself."
OTHERS = (ENGINE, FEATURES, "fedgrid.randomness", "fedgrid.tree")
"The other units."
Code = Mapping[str, str]
"Digest of each module by its name."


def units(sources: Sources) -> list[str]:
    """The names of all units of a version of fedgrid."""
    return sorted({*OTHERS, *(name for room in ROOMS for name in sources.below(room) if name not in NOT_COUNTED)})


def code_of(unit: str, sources: Sources) -> dict[str, str]:
    """The code of a unit. That of a method leaves out what the engine has, with which it always runs."""
    covered = sources.closure([ENGINE]) if f"{unit}.".startswith(f"{METHODS}.") else {}
    return {name: node.digest for name, node in sources.closure([unit]).items() if name not in covered}


def unlisted(sources: Sources, among: Container[str] | None = None) -> dict[str, dict[str, str]]:
    """The units, all or those `among` some names, whose code nobody vouches for, with that code."""
    codes = {unit: code_of(unit, sources) for unit in units(sources) if among is None or unit in among}
    return {unit: code for unit, code in codes.items() if not is_listed(unit, code)}


def is_listed(unit: str, code: Code) -> bool:
    """Whether the code of a unit is known to compute the numbers of one of its identities."""
    return digest(code) in _identities().get(unit, {})


def edited(entries: Iterable[str], sources: Sources) -> set[str]:
    """Of modules and all that they import, the units that nobody vouches for, as far down as they can be told."""
    unknown = unlisted(sources, sources.closure(entries))
    return {unit for unit, code in unknown.items() if not code.keys() & unknown.keys() - {unit}}


def identity_of(entries: Iterable[str], sources: Sources) -> dict[str, str]:
    """What stands in a key for modules of fedgrid and all that they import: the identities of their units together."""
    entries = {*entries}
    covered = {*sources.closure([ENGINE])} - {ENGINE} if ENGINE in entries else set()
    together: dict[str, str] = {}
    for unit in sorted(entries - covered):
        for name, code in _identity(unit, sources).items():
            known = together.setdefault(name, code)
            together[name] = known if known == code else digest(sorted((known, code)))
    return dict(sorted(together.items()))


def _identity(unit: str, sources: Sources) -> Code:
    code = code_of(unit, sources)
    return _identities().get(unit, {}).get(digest(code), code)


@functools.cache
def _identities() -> Mapping[str, Mapping[str, Code]]:
    """By unit and digest of its code, the identity that stands for it."""
    known = read()["units"]
    return {unit: {code: one["identity"] for one in known[unit] for code in one["code"]} for unit in known}


def read() -> dict[str, Any]:
    """The ledger: ``evidence``, and by unit its identities, each with the digests of code and their evidence."""
    ledger: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return ledger
